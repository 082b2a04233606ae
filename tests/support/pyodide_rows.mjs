// Rows of certificates by the checker under Pyodide in Node: the argument is the folder of the page's
// files; standard input names a certificate a line; one line of JSON each, with the seconds of a
// processor that it took.
import fs from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(folder, "pyodide.mjs")).href);
const spent = (since) => { const { user, system } = process.cpuUsage(since); return (user + system) / 1e6; };
const begun = process.cpuUsage();
const lockFileContents = JSON.parse(fs.readFileSync(path.join(folder, "lock.json"), "utf8"));
const python = await loadPyodide({ indexURL: folder, lockFileContents });
for (const name of fs.readdirSync(folder).filter((one) => one.endsWith(".whl"))) {
  python.unpackArchive(new Uint8Array(fs.readFileSync(path.join(folder, name))), "wheel");
}
const answer = python.runPython(
    "from dpaudit.check.page import answer\nlambda name, content: answer(name, content.to_bytes())",
  );
const bits = python.runPython("import sys; sys.maxsize.bit_length() + 1");
console.log(JSON.stringify({ start: spent(begun), bits }));
for await (const file of createInterface({ input: process.stdin })) {
  const start = process.cpuUsage();
  const made = answer(file, new Uint8Array(fs.readFileSync(file)));
  console.log(JSON.stringify({ ...JSON.parse(made), seconds: spent(start) }));
}
