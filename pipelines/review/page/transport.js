"use strict";
// Where the pictures of the page come from and its verdicts go: the server that wrote it, or a file of its own.
const $ = (id) => document.getElementById(id);
// A name as the terminal shows it: what does not print, or turns the order of letters, is an escape.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/gu;
const escaped = (letter) => {
  const code = letter.codePointAt(0), [mark, length] = code < 256 ? ["x", 2] : code < 65536 ? ["u", 4] : ["U", 8];
  return letter === "\n" ? letter : `\\${mark}${code.toString(16).padStart(length, "0")}`;
};
const printable = (text) => String(text).replace(HIDDEN, escaped);
const counted = (count, noun, end) => `${count} ${noun}${count === 1 ? "" : end}`;

function fromServer() {
  const answer = async (address, options) => {
    let reply;
    try {
      reply = await fetch(address, options);
    } catch {
      throw new Error("the server has ended, so nothing more is saved; run lapsvm review again and open its address");
    }
    if (reply.status === 404) throw new Error("this page is of a review that has ended, so nothing more is saved; open the address that lapsvm review prints");
    if (!reply.ok) {
      const text = (await reply.text()).trim().replace(/\.$/, "") || `the server says ${reply.status}`;
      throw Object.assign(new Error(text), { unusable: reply.status === 409 });
    }
    return reply;
  };
  const loaded = new Map();
  const picture = (n) => {
    if (!loaded.has(n)) {
      if (loaded.size > 8) { URL.revokeObjectURL(loaded.values().next().value); loaded.delete(loaded.keys().next().value); }
      loaded.set(n, answer(`picture/${n}`).then((reply) => reply.blob()).then((blob) => URL.createObjectURL(blob)));
      loaded.get(n).catch(() => loaded.delete(n));
    }
    return loaded.get(n);
  };
  return {
    end: "Every class is done: end the review with Ctrl-C in its terminal, which then says how to train on your verdicts.",
    classes: async () => (await answer("state")).json(),
    queue: async (c) => (await answer(`queue/${c}`)).json(),
    item: async (c, n) => ({ ...(await (await answer(`item/${c}/${n}`)).json()), source: await picture(n) }),
    save: async (verdict) => (await answer("verdict", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(verdict) })).json(),
  };
}

function fromFile(data, say) {
  const saved = new Map();  // class and picture -> the line of the file
  let fresh = 0;
  const key = (c, n) => `${c} ${n}`;
  const said = (c, n) => ({ verdict: saved.get(key(c, n))?.verdict ?? null, boxes: saved.get(key(c, n))?.boxes ?? [] });
  try {  // a second copy only: where pages are files, browsers may forget or forbid it
    for (const [name, line] of JSON.parse(localStorage.getItem(data.key) || "[]")) saved.set(name, line);
  } catch { /* the download is what counts */ }
  $("download").hidden = false;
  $("download").addEventListener("click", () => {
    const text = [...saved.values()].map((line) => JSON.stringify(line) + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    link.download = "verdicts.jsonl";
    link.click();
    fresh = 0;
    say(`${counted(saved.size, "verdict", "s")} downloaded; send the file back.`);
  });
  addEventListener("beforeunload", (event) => { if (fresh) event.preventDefault(); });
  return {
    end: "Every class is done: download the verdicts, and send the file back.",
    classes: async () => data.classes.map((one, c) => ({ ...one, left: data.queues[c].filter(({ n }) => !saved.has(key(c, n))).length })),
    queue: async (c) => {
      const order = [...saved.keys()];
      return data.queues[c].map((one) => ({ n: one.n, verdict: saved.get(key(c, one.n))?.verdict ?? null, said: order.indexOf(key(c, one.n)) }));
    },
    item: async (c, n) => {
      const one = data.queues[c].find((other) => other.n === n);
      return { ...one, source: data.pictures[n], ...said(c, n) };
    },
    save: async ({ class: c, n, verdict, boxes, seconds }) => {
      const one = data.queues[c].find((other) => other.n === n), replaced = said(c, n);
      saved.delete(key(c, n));  // what is said last comes last
      if (verdict !== "skip") saved.set(key(c, n), { picture: one.picture, pixels: one.pixels, class: data.classes[c].name, verdict, boxes,
        order: one.order, candidates: one.candidates, seconds });
      fresh += 1;
      try { localStorage.setItem(data.key, JSON.stringify([...saved])); } catch { /* as above */ }
      return { figure: `${counted(saved.size, "verdict", "s")} to download`, replaced };
    },
  };
}
