// A stand-in for Visual Studio Code: enough of its API for the extension to start the language server and show it a text.
// Writes what was published and shown. NODE_PATH must lead to vscode-languageclient.
// Usage: node editor.cjs EXTENSION.js SETTINGS.json-text TEXT
"use strict";
const Module = require("module");
const [, , extensionFile, settingsText, text] = process.argv;
const settings = JSON.parse(settingsText);
const shown = [];
const published = [];

class Disposable {
  dispose() {}
}
class Uri {
  constructor(text) {
    this.text = text;
    this.scheme = "file";
    this.path = this.fsPath = text.replace("file://", "");
  }
  toString() {
    return this.text;
  }
  static parse(text) {
    return new Uri(text);
  }
  static file(path) {
    return new Uri(`file://${path}`);
  }
}
class Position {
  constructor(line, character) {
    Object.assign(this, { line, character });
  }
}
class Range {
  constructor(...ends) {
    const [start, end] = ends.length === 4 ? [new Position(ends[0], ends[1]), new Position(ends[2], ends[3])] : ends;
    Object.assign(this, { start, end });
  }
}
class Diagnostic {
  constructor(range, message, severity) {
    Object.assign(this, { range, message, severity });
  }
}
class EventEmitter extends Disposable {
  listeners = [];
  event = (listener) => {
    this.listeners.push(listener);
    return new Disposable();
  };
  fire(value) {
    this.listeners.forEach((listener) => listener(value));
  }
}
class CancellationTokenSource extends Disposable {
  token = { isCancellationRequested: false, onCancellationRequested: () => new Disposable() };
  cancel() {}
}

// What is not written out: events never happen, classes are empty, functions give something that can be disposed of.
function filled(known) {
  return new Proxy(known, {
    get(target, key) {
      if (key in target || typeof key !== "string") return target[key];
      if (/^on[A-Z]/.test(key)) return () => new Disposable();
      if (/^(register|create|show)/.test(key)) return () => new Disposable();
      return /^[A-Z]/.test(key) ? class extends Disposable {} : undefined;
    },
  });
}
const ones = new Proxy({}, { get: () => 1 });
const show = async (message) => void shown.push(message);
const log = (line) => void shown.push(line);
const document = {
  uri: Uri.file("/models/model.rlx"),
  fileName: "/models/model.rlx",
  languageId: "rlx",
  version: 1,
  isClosed: false,
  getText: () => text,
};
const vscode = filled({
  version: "1.90.0",
  Uri,
  Position,
  Range,
  Diagnostic,
  EventEmitter,
  CancellationTokenSource,
  SymbolKind: ones,
  CompletionItemKind: ones,
  CompletionItemTag: ones,
  SymbolTag: ones,
  DiagnosticTag: ones,
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  CodeActionKind: new Proxy({}, { get: () => ({ append: () => ({}) }) }),
  env: filled({ appName: "stand-in", language: "en" }),
  extensions: filled({ all: [] }),
  l10n: filled({}),
  commands: filled({}),
  languages: filled({
    match: () => 10,
    createDiagnosticCollection: () => ({
      set: (uri, found) => published.push((found ?? []).map((d) => [d.code?.value ?? d.code, d.message, d.range.start])),
      delete() {},
      clear() {},
      dispose() {},
    }),
  }),
  workspace: filled({
    textDocuments: [document],
    notebookDocuments: [],
    workspaceFolders: [],
    getConfiguration: () => ({ get: (key, value) => settings[key] ?? value, has: () => false, inspect: () => undefined }),
    createFileSystemWatcher: () => filled({}),
  }),
  window: filled({
    visibleTextEditors: [],
    tabGroups: filled({ all: [] }),
    createOutputChannel: () => ({ append: log, appendLine: log, show() {}, dispose() {} }),
    showInformationMessage: show,
    showWarningMessage: show,
    showErrorMessage: show,
  }),
});

const load = Module._load;
Module._load = function (name, ...rest) {
  return name === "vscode" ? vscode : load.call(this, name, ...rest);
};

async function main() {
  const extension = require(extensionFile);
  const context = { subscriptions: [] };
  await extension.activate(context);
  for (let k = 0; k < 600 && settings.wait && !published.length; k++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await extension.deactivate();
  process.stdout.write(JSON.stringify({ published, shown }));
  process.exit(0);
}

main().catch((problem) => {
  console.error(problem);
  process.exit(1);
});
