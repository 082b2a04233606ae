// The page: it hands files to the checker's worker, and shows what the checker says of them.
"use strict";
const LARGEST = 4 * 2 ** 20; // bytes of a certificate; the checker reads no more
const LONGEST_TIMER = 2 ** 31 - 1; // milliseconds that a browser can wait
// How the reader allows more time; a refusal that ends so has the button.
const AGAIN = "; the button below checks it again, ten times as long";
const LARGEST_PUBLISHED = 2 ** 28; // bytes of a file whose digest is compared
const state = document.getElementById("state");
const results = document.getElementById("results");
const source = document.getElementById("worker").textContent;
const encode = (text) => new TextEncoder().encode(text);
const hex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");
const sha256 = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));
function unbase64(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

async function unpacked(block) {
  const packed = unbase64(block.textContent);
  block.textContent = "";
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const assets = (async () => {
  const blocks = [...document.querySelectorAll("script[data-name]")];
  return Object.fromEntries(
    await Promise.all(blocks.map(async (one) => [one.dataset.name, await unpacked(one)])),
  );
})();

// A worker that is ready; one that was ended is replaced when the next file comes.
let working = null;
function worker() {
  working ??= (async () => {
    const made = new Worker(URL.createObjectURL(new Blob([source])));
    await new Promise(async (done, failed) => {
      made.onmessage = ({ data }) => (data.ready ? done() : failed(new Error(data.failed)));
      made.onerror = (event) => failed(new Error(event.message));
      made.postMessage({ assets: await assets });
    });
    return made;
  })();
  return working;
}

async function checked(name, content, times) {
  const ready = await worker();
  return new Promise((done) => {
    const end = (answer) => { clearTimeout(limit); done(answer); };
    const limit = setTimeout(() => {
      ready.terminate();
      working = null;
      end({ failed: `not verified within ${SECONDS * times} s; the check was ended${AGAIN}` });
    }, Math.min(SECONDS * times * 1000, LONGEST_TIMER));
    ready.onmessage = ({ data }) => {
      if (data.failed) { ready.terminate(); working = null; }
      end(data.failed ? { failed: `not verified: ${data.failed}` } : data.answer);
    };
    ready.postMessage({ name, content, times, advice: AGAIN });
  });
}

// Ed25519 over DSSE's encoding of the certificate's canonical bytes.
async function signaturesOf(envelope, payload, keys) {
  const content = JSON.parse(envelope);
  if (content.payloadType !== "application/vnd.in-toto+json" || content.payload !== payload) {
    return [["bad", "The signatures are of another certificate, or this one was changed since."]];
  }
  const bytes = unbase64(payload);
  const head = `DSSEv1 ${content.payloadType.length} ${content.payloadType} ${bytes.length} `;
  const message = new Uint8Array([...encode(head), ...bytes]);
  return Promise.all(content.signatures.slice(0, 64).map(async (one) => {
    for (const { name, key, id } of keys) {
      if (await crypto.subtle.verify("Ed25519", key, unbase64(one.sig), message)) {
        return ["good", `Signed by the key ${name} (${id}).`];
      }
    }
    return keys.length
      ? ["bad", `A signature by no key that you gave (it names ${one.keyid}).`]
      : ["", `A signature by the key ${one.keyid}: not checked; add the signer's .pub file.`];
  }));
}

async function keyOf({ name, content }) {
  const text = new TextDecoder().decode(content).replace(/-----[^-]+-----|\s/g, "");
  const der = unbase64(text);
  const key = await crypto.subtle.importKey("spki", der, "Ed25519", true, ["verify"]);
  return { name, key, id: await sha256(await crypto.subtle.exportKey("raw", key)) };
}

function added(parent, tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return parent.appendChild(made);
}

function listed(parent, title, lines) {
  if (!lines.length) return;
  added(parent, "h3", title);
  const list = added(parent, "ul");
  for (const [kind, text] of lines) added(list, "li", text, kind);
}

// The certificate's privacy profile: epsilon across, delta down a logarithmic axis.
const WIDE = 640, HIGH = 360, LEFT = 64, BELOW = 40, SMALLEST = 1e-30;

function drawn(parent, { accounted, claimed, bands }) {
  const shown = [...accounted, ...claimed, ...bands.flat()].filter(([, delta]) => delta >= SMALLEST);
  if (!accounted.length || !shown.length) return;
  const right = 1.2 * Math.max(...(claimed.length ? claimed : accounted).map(([epsilon]) => epsilon));
  const visible = shown.filter(([epsilon]) => epsilon <= right).map(([, delta]) => delta);
  const floor = Math.floor(Math.log10(Math.min(...visible))), top = 0;
  const x = (epsilon) => LEFT + ((WIDE - LEFT - 8) * epsilon) / (right || 1);
  const y = (delta) => 8 + ((HIGH - BELOW - 8) * (top - Math.log10(delta))) / (top - floor || 1);
  const part = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const figure = added(parent, "figure");
  const svg = figure.appendChild(part("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" }));
  svg.append(part("title", {}, "Privacy profile"), part("desc", {},
    `${accounted.length} accounted points; claimed: ` +
    (claimed.map(([e, d]) => `epsilon ${e}, delta ${d}`).join("; ") || "no such pair") +
    `; ${bands.length} likelihood bands.`));
  const line = (points, kind, step) => {
    const seen = points.filter(([e, d]) => e <= right && d >= 10 ** floor);
    const path = seen.map(([e, d], k) => {
      const here = `${x(e).toFixed(1)},${y(d).toFixed(1)}`;
      return k === 0 ? `M${here}` : step ? `V${y(d).toFixed(1)}H${x(e).toFixed(1)}` : `L${here}`;
    });
    svg.append(part("path", { class: kind, d: path.join("") }));
  };
  svg.append(part("path", { class: "axis", d: `M${LEFT},8V${HIGH - BELOW}H${WIDE - 8}` }));
  for (let power = top; power >= floor; power -= Math.ceil((top - floor) / 6) || 1) {
    svg.append(part("text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `1e${power}`));
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const at = Number((share * right).toPrecision(2));
    svg.append(part("text", { x: x(at), y: HIGH - BELOW + 18, "text-anchor": share === 1 ? "end" : "middle" }, String(at)));
  }
  svg.append(part("text", { x: (WIDE + LEFT) / 2, y: HIGH - 4, "text-anchor": "middle" }, "epsilon"));
  svg.append(part("text", { x: LEFT + 6, y: 16 }, "delta"));
  line(accounted, "accounted");
  bands.forEach((band) => line(band, "band", true));
  for (const [epsilon, delta] of claimed) {
    if (delta >= 10 ** floor) svg.append(part("circle", { class: "claimed", cx: x(epsilon), cy: y(delta), r: 5 }));
  }
  added(figure, "figcaption", "Solid: accounted points, joined. Circle: a claim, met if the line passes " +
    `through it or below.${bands.length ? " Stepped: below the truth at 95% confidence, by likelihoods." : ""}`);
}

const VERDICTS = {
  certified: "good", certified_under_assumptions: "good", empirical: "good",
};

// Limits of time are so many times the usual ones.
async function shown(certificate, others, times = 1, place = added(results, "section")) {
  place.replaceChildren();
  place.dataset.file = certificate.name;
  added(place, "h2", certificate.name);
  const answer = certificate.size > LARGEST
    ? { failed: `larger than ${LARGEST} bytes, as no certificate is`, failure: "bytes" }
    : await checked(certificate.name, certificate.content, times);
  const row = answer.row ?? { verified: false, failure: answer.failure ?? "limits", reason: answer.failed, sha256: "" };
  place.dataset.verified = row.verified;
  place.dataset.failure = row.failure;
  place.dataset.verdict = row.verdict ?? "";
  if (!row.verified) {
    added(place, "p", `Not verified: ${row.reason}`, "bad");
    if (row.reason.endsWith(AGAIN)) {
      added(place, "button", `Check ${certificate.name} again`).onclick = ({ target }) => {
        target.disabled = true;
        inTurn(() => shown(certificate, others, 10 * times, place));
      };
    }
    return [];
  }
  added(place, "p", `Verified. Verdict: ${row.verdict.replaceAll("_", " ")}`, VERDICTS[row.verdict] ?? "bad");
  added(place, "p", `SHA-256 of the file: ${row.sha256}`);
  if (row.epsilons.length) {
    const table = added(place, "table");
    added(table, "caption", "Claims, and the epsilon that was re-derived");
    const head = added(added(table, "thead"), "tr");
    for (const text of ["claim", "epsilon at most", "delta"]) added(head, "th", text).scope = "col";
    const body = added(table, "tbody");
    for (const cells of row.epsilons) {
      const line = added(body, "tr");
      for (const text of cells) added(line, "td", text);
    }
  }
  drawn(place, answer.figure);
  listed(place, "Re-derived", row.confirmed.map((text) => ["good", text]));
  listed(place, "Taken on trust", row.on_trust.map((text) => ["", text]));
  listed(place, "Bounds that only the accountant computed", row.unconfirmed.map((text) => ["bad", text]));
  listed(place, "Audits that could not have refuted a claim", row.powerless.map((text) => ["", text]));
  listed(place, "Not compared with anything", row.unchecked.map((one) => ["", `${one.fields.join(", ")}: ${one.why}`]));
  listed(place, "Signatures", await signed(certificate, answer, others));
  listed(place, "Files", await compared(answer.files, others));
  return answer.files.map(({ name }) => baseOf(name));
}

async function signed(certificate, answer, others) {
  const keys = [], lines = [];
  for (const file of others.filter((one) => one.name.endsWith(".pub"))) {
    try { keys.push(await keyOf(file)); } catch { lines.push(["bad", `${file.name}: not an Ed25519 public key.`]); }
  }
  for (const file of others.filter((one) => one.name === `${certificate.name}.dsse`)) {
    try {
      lines.push(...await signaturesOf(new TextDecoder("utf-8", { fatal: true }).decode(file.content), answer.payload, keys));
    } catch { lines.push(["bad", `${file.name}: not a DSSE envelope.`]); }
  }
  return lines.length ? lines : [["", "None given."]];
}

async function compared(named, others) {
  const lines = [];
  for (const { name, sha256: expected } of named) {
    const file = others.find((one) => one.name === baseOf(name));
    if (!file) lines.push(["", `${name}: not given`]);
    else if (!file.content) lines.push(["bad", `${name}: too large to be compared here`]);
    else if ((await sha256(file.content)) === expected) lines.push(["good", `${name}: as certified`]);
    else lines.push(["bad", `${name}: not the certified file (another SHA-256)`]);
  }
  return lines;
}

const baseOf = (name) => name.split("/").pop();
const isCertificate = ({ name }) => name.endsWith(".json");
let turn = Promise.resolve();
function inTurn(work) {
  turn = turn.then(async () => {
    state.textContent = "Checking.";
    document.body.dataset.done = "";
    await work();
    const certificates = results.children;
    state.textContent = certificates.length
      ? `${certificates.length} checked.`
      : "No certificate among these files: its name ends in .json.";
    document.body.dataset.done = "yes";
  }).catch((error) => { state.textContent = `The page failed: ${error}`; });
}

function given(list) {
  inTurn(async () => {
    results.replaceChildren();
    const files = await Promise.all([...list].map(async (one) => ({
      name: one.name,
      size: one.size,
      content: one.size > LARGEST_PUBLISHED ? null : new Uint8Array(await one.arrayBuffer()),
    })));
    const named = [];
    for (const one of files.filter(isCertificate)) {
      named.push(...await shown(one, files.filter((other) => other !== one)));
    }
    // A published file may be JSON too: one that a certificate beside it names is compared, not judged.
    for (const place of [...results.children]) {
      if (place.dataset.verified === "false" && named.includes(place.dataset.file)) place.remove();
    }
  });
}

document.getElementById("files").addEventListener("change", (event) => {
  given([...event.target.files]);
  event.target.value = ""; // so that the same file can be chosen again
});
const drop = document.getElementById("drop");
for (const kind of ["dragover", "dragleave", "drop"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop") given(event.dataTransfer.files);
  });
}
worker().then(
  () => { if (!results.childElementCount) state.textContent = "Ready."; document.body.dataset.ready = "yes"; },
  (error) => { state.textContent = `The checker could not be started: ${error.message}. A recent Chromium, Firefox or Safari is needed.`; },
);
