// Reads a JSON list of texts, writes for each a list of lines, each a list of [text, scopes].
// NODE_PATH must lead to vscode-textmate and vscode-oniguruma. Usage: node tokenize.cjs GRAMMAR < texts.json
"use strict";
const fs = require("fs");
const path = require("path");
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

const wasm = path.join(path.dirname(require.resolve("vscode-oniguruma")), "onig.wasm");
const file = process.argv[2];

async function main() {
  await oniguruma.loadWASM(fs.readFileSync(wasm));
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(file, "utf8"), file),
  });
  const grammar = await registry.loadGrammar("source.rlx");
  const result = JSON.parse(fs.readFileSync(0, "utf8")).map((text) => {
    let stack = INITIAL;
    return text.split("\n").map((line) => {
      const { tokens, ruleStack } = grammar.tokenizeLine(line, stack);
      stack = ruleStack;
      return tokens.map((t) => [line.slice(t.startIndex, t.endIndex), t.scopes.slice(1)]);
    });
  });
  process.stdout.write(JSON.stringify(result));
}

main().catch((problem) => {
  console.error(problem);
  process.exit(1);
});
