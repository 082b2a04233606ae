// Under Node: bytecode in the place of the modules that the page's Python loads at its start.
// Arguments: the folder of the page's files, and bytecode.py.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, program] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(folder, "pyodide.mjs")).href);
const python = await loadPyodide({
  indexURL: folder,
  lockFileContents: JSON.parse(fs.readFileSync(path.join(folder, "lock.json"), "utf8")),
  // The order of sets, and with it the bytecode, is the same whenever it is made.
  env: { HOME: "/home/pyodide", PYTHONHASHSEED: "0" },
});
const wheels = fs.readdirSync(folder).filter((name) => name.endsWith(".whl"));
for (const name of wheels) {
  python.unpackArchive(new Uint8Array(fs.readFileSync(path.join(folder, name))), "wheel");
}
python.FS.mkdir("/assets");
python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, "/assets");
python.globals.set("wheels", python.toPy(wheels));
python.runPython(fs.readFileSync(program, "utf8"));
python.runPython("import os; import_compiled(os.getcwd())");
python.runPython("import jsonschema, sympy, dpaudit.check.page");
python.runPython(`
archives = {Path("/assets", name): os.getcwd() for name in wheels}
standard = next(path for path in sys.path if path.endswith(".zip"))
compile_archives({**archives, Path("/assets/python_stdlib.zip"): standard})
`);
