// The checker in a worker: it answers {id, name, content, times, advice} with {id, answer}, offline.
const address = (bytes) => URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));

async function started(assets) {
  // The runtime asks for its two files by name; nothing else is answered, so nothing is loaded.
  globalThis.fetch = async (asked) => {
    const name = String(asked).split("/").pop();
    if (!(name in assets)) throw new Error(`nothing is loaded from a network: ${name}`);
    const type = name.endsWith(".wasm") ? "application/wasm" : "application/zip";
    return new Response(assets[name], { headers: { "content-type": type } });
  };
  const { loadPyodide } = await import(address(assets["pyodide.mjs"]));
  const { default: createPyodideModule } = await import(address(assets["pyodide.asm.mjs"]));
  const lockFileContents = JSON.parse(new TextDecoder().decode(assets["lock.json"]));
  const python = await loadPyodide({
    indexURL: "https://offline.invalid/",
    packageBaseUrl: "https://offline.invalid/",
    createPyodideModule,
    lockFileContents,
  });
  for (const name of Object.keys(assets).filter((one) => one.endsWith(".whl"))) {
    python.unpackArchive(assets[name], "wheel");
  }
  const answering = python.runPython(
    "from dpaudit.check.page import answer\nlambda name, content, *limits: answer(name, content.to_bytes(), *limits)",
  );
  // What every check needs is loaded while the reader looks for his files.
  setTimeout(() => python.runPython("import flint, jsonschema"));
  return answering;
}

let answer;
onmessage = async ({ data }) => {
  try {
    if (data.assets) {
      answer = await started(data.assets);
      postMessage({ ready: true });
    } else {
      const made = answer(data.name, data.content, data.times, data.advice);
      postMessage({ id: data.id, answer: JSON.parse(made) });
    }
  } catch (error) {
    postMessage({ id: data.id, failed: String(error).slice(-400) });
  }
};
