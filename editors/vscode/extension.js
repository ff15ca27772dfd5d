// Starts the language server `rlx lsp` for .rlx files. Without the packages of Node.js or without the command the rest of
// the extension (highlighting, snippets, brackets) works all the same.
"use strict";
const vscode = require("vscode");

let client;

function languageClient() {
  try {
    return require("vscode-languageclient/node");
  } catch {
    return undefined;
  }
}

async function start() {
  const settings = vscode.workspace.getConfiguration("rlx");
  if (!settings.get("server.enabled", true)) {
    return;
  }
  const library = languageClient();
  if (library === undefined) {
    vscode.window.showInformationMessage("rlx: run `npm install --omit=dev` in the folder of the extension for the language server.");
    return;
  }
  const [command, ...args] = settings.get("server.command", ["rlx", "lsp"]);
  client = new library.LanguageClient(
    "rlx",
    "rlx",
    { command, args, transport: library.TransportKind.stdio },
    {
      documentSelector: [{ language: "rlx" }],
      synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.rlx") },
    },
  );
  try {
    await client.start();
  } catch (problem) {
    client = undefined;
    vscode.window.showWarningMessage(`rlx: \`${command}\` does not start: ${problem.message ?? problem}`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(vscode.commands.registerCommand("rlx.restartServer", restart));
  await start();
}

module.exports = { activate, deactivate: stop };
