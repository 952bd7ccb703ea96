"use strict";
// The page of `lapsvm review`; transport.js stands before it.
(() => {
  const SVG = "http://www.w3.org/2000/svg", KINDS = ["one", "two", "three"], AHEAD = 2, PADDING = 0.35, STEP = 0.01, POLL = 700, LATE = 1000;
  const SLIP = 6, ASK = 10, LARGER = 1.3, WAITING = "Waiting for the server...";  // pixels of the screen; pictures without the class in a row; a close-up beside the whole picture
  const REFUSED = 2, DRAW = "No box was right twice in a row: please draw the object here (w). One drawn box teaches more than many refusals.";
  const embedded = $("data") && JSON.parse($("data").textContent);
  const transport = embedded ? fromFile(embedded, (text) => say(text)) : fromServer();
  const state = { classes: [], at: 0, queue: [], place: 0, item: null, shownAt: 0, undo: [], times: [], busy: false,
    taken: [], more: false, drawing: false, drawn: null, drag: null, focus: 0, saves: 0, polling: null, asked: 0 };

  // ---- what is shown ----
  const say = (text) => { $("said").textContent = printable(text); };
  const write = (id, text) => { if ($(id).textContent !== printable(text)) $(id).textContent = printable(text); };  // said aloud once
  const problem = (error) => { $("problem").hidden = !error; $("problem").textContent = error ? printable(`${error.message}.`) : ""; };

  async function guarded(work) {
    if (state.busy) return;
    state.busy = true;
    const late = setTimeout(() => say(WAITING), LATE);
    state.job = work().then(() => problem(null), problem).finally(() => {
      clearTimeout(late);
      if ($("said").textContent === WAITING) say("");
      state.busy = false;
    });
    await state.job;
  }

  async function openClass(index) {
    const queue = await transport.queue(index), { version } = state.classes[index];
    const before = queue.map((one, place) => ({ ...one, place })).filter((one) => !isOpen(one)).sort((a, b) => a.said - b.said);
    const undo = before.map(({ place }) => ({ place, verdict: "skip", boxes: [], version }));  // what was said before is taken back, too
    Object.assign(state, { at: index, undo, queue, place: -1, item: null, asked: 0 });
    standing();
    say("");
    await advance();
  }

  const isOpen = (one) => one.verdict === null || one.verdict === "skip";

  async function advance() {  // to the next picture that is undecided; those that cannot be shown are named and left out
    const unusable = [];
    for (;;) {
      const after = state.queue.findIndex((one, place) => place > state.place && isOpen(one));
      const place = after >= 0 ? after : state.queue.findIndex(isOpen);
      if (place < 0 ? await end() : await showUsable(place, unusable, true)) break;
    }
    if (unusable.length) throw new Error(unusable.join("; "));
  }

  async function end() {  // no picture is left, so none is shown: a key too many would change its verdict
    const left = (await transport.classes()).filter((one, index) => one.left && index !== state.at).map((one) => one.name);
    Object.assign(state, { item: null, place: state.queue.length, more: false, drawing: false, drawn: null });
    say(`No picture of this class is left to look at. ${left.length ? `Choose another above: ${left.join(", ")}.` : transport.end}`);
    appear();
    return true;
  }

  function appear() {
    for (const id of ["views", "verdict"]) $(id).hidden = !state.item;
    $("help").hidden = true;
    progress();
    standing();
  }

  async function showUsable(place, unusable, isOpenAlone = false) {  // a picture that cannot be shown is marked and named
    try {
      return await show(place, isOpenAlone);
    } catch (error) {
      if (!error.unusable) throw error;
      state.queue[place].verdict = "unusable";
      unusable.push(error.message);
      return false;
    }
  }

  async function show(place, isOpenAlone = false) {  // returns false if it was decided meanwhile in another window
    const one = state.queue[place], item = await transport.item(state.at, one.n);
    one.verdict = item.verdict;
    if (isOpenAlone && !isOpen(one)) return false;
    Object.assign(state, { place, item, taken: [], more: false, drawing: false, drawn: null, drag: null, focus: 0,
      shownAt: performance.now() });
    appear();
    draw();
    for (const one of state.queue.slice(place + 1, place + 1 + AHEAD)) transport.item(state.at, one.n).catch(() => {});
    return true;
  }

  // ---- learning: the picture that is looked at stays as it is, the next ones have the new boxes ----
  function standing() {  // figure, learning and advice of the class
    const one = state.classes[state.at] || {}, isShown = state.item && state.item.version >= one.version;
    const news = one.busy ? " the next boxes are the former ones until then" : one.learned && state.item ? (isShown ? ": these boxes are new" : ": the next boxes are new") : "";
    write("figure", one.figure || "");
    write("learning", `${one.learning || ""}${news}${one.advice ? `; ${one.advice}` : ""}`);
  }

  function watch() {  // asks how learning goes while something learns
    if (state.polling || !state.classes.some((one) => one.busy)) return;
    state.polling = setTimeout(async () => {
      const { saves } = state;
      try {
        const now = await transport.classes();
        if (saves === state.saves) { state.classes.forEach((one, index) => Object.assign(one, now[index])); standing(); }
        state.polling = null;
        watch();
      } catch { state.polling = null; }  // the next verdict says what is wrong
    }, POLL);
  }

  function progress() {
    const usable = state.queue.filter((one) => one.verdict !== "unusable"), left = usable.filter(isOpen).length;
    const decided = usable.length - left;
    const mean = state.times.length ? state.times.reduce((sum, one) => sum + one, 0) / state.times.length : null;
    const drawn = usable.filter((one) => one.random), seen = drawn.filter((one) => !isOpen(one)).length;
    const first = drawn.length && seen < drawn.length ? `${seen} of the first ${drawn.length} looked at, ` : "";
    const pace = mean === null ? "" : `; ${mean.toFixed(1)} s a picture`;
    $("progress").textContent = `${first}${decided} decided, ${left} left${pace}`;
    $("undo").disabled = !state.undo.length;
  }

  function element(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function draw() {
    const { item } = state, all = [...item.candidates.map((box, index) => ({ box, kind: KINDS[index], label: `${index + 1}` }))];
    const extra = state.taken.filter((box) => !item.candidates.includes(box));
    extra.push(...item.boxes.filter((box) => !item.candidates.some((other) => same(other, box))));
    if (state.drawn) extra.push(state.drawn);
    all.push(...extra.map((box) => ({ box, kind: "drawn", label: "" })));
    const focused = state.drawing && state.drawn ? state.drawn : item.candidates[state.focus] || extra[0];
    paint($("whole"), [0, 0, item.width, item.height], all);
    const near = focused && [padded(focused, item), cut(focused)].find((view) => scale(view) >= LARGER * scale([0, 0, item.width, item.height]));
    $("views").classList.toggle("alone", !near);  // a close-up of nearly the whole picture would be the same picture
    if (near) paint($("close"), near, all);
    const where = item.candidates.map((box, index) => `box ${index + 1}: ${described(box, item)}`).join("; ");
    $("whole-title").textContent = `Picture ${printable(item.picture)}. ${where || "No candidates."}`;
    $("close-title").textContent = `Close-up of ${focused ? described(focused, item) : "the picture"}`;
    $("name").textContent = printable(item.picture) + (item.verdict && item.verdict !== "skip" ? ` (so far: ${saying(item.verdict, item.boxes)})` : "");
    $("focus").textContent = state.drawing ? "the drawn box" : `box ${state.focus + 1}`;
    KINDS.forEach((_, index) => { $(`pick${index + 1}`).disabled = index >= item.candidates.length; });
    $("more").setAttribute("aria-pressed", state.more);
    $("draw").setAttribute("aria-pressed", state.drawing);
    $("finish").hidden = !(state.more || state.drawing);
    $("ends").textContent = state.drawing ? "take the drawn box" : "these are all";
    $("help").hidden = !state.drawing;
    const other = item.second, isAsked = Number.isInteger(other) && !state.more && !state.drawing;
    write("ask", isAsked ? `Box ${other + 1} is elsewhere and likely, too: if there is more than one, press m and take each.` : "");
    $("whole").classList.toggle("drawing", state.drawing);
  }

  const saying = (verdict, boxes) => verdict === "boxes" ? counted(boxes.length, "box", "es") : $(verdict).lastChild.textContent.trim();
  const same = (a, b) => a.every((value, index) => Math.abs(value - b[index]) < 0.01);
  const share = (value, size) => `${Math.round((100 * value) / size)} %`;
  const described = ([x1, y1, x2, y2], { width, height }) =>
    `from ${share(x1, width)} to ${share(x2, width)} across, ${share(y1, height)} to ${share(y2, height)} down`;

  const scale = ([, , width, height]) => Math.min($("views").clientWidth / 2 / width, $("whole").clientHeight / height);
  const cut = ([x1, y1, x2, y2]) => [x1, y1, x2 - x1, y2 - y1];

  function padded([x1, y1, x2, y2], { width, height }) {
    const px = PADDING * (x2 - x1), py = PADDING * (y2 - y1);
    const left = Math.max(0, x1 - px), top = Math.max(0, y1 - py);
    return [left, top, Math.min(width, x2 + px) - left, Math.min(height, y2 + py) - top];
  }

  function paint(svg, view, boxes) {
    svg.setAttribute("viewBox", view.join(" "));
    const { item } = state, image = element("image", { width: item.width, height: item.height, href: item.source, preserveAspectRatio: "none" });
    const made = [image], labels = [];
    const unit = Math.max(view[2] / Math.max(1, svg.clientWidth), view[3] / Math.max(1, svg.clientHeight));
    for (const { box, kind, label } of boxes) {  // labels are in different corners, because boxes share corners
      const [x1, y1, x2, y2] = box, place = { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1) };
      const taken = (state.more ? state.taken.includes(box) : item.boxes.some((other) => same(other, box))) ? " taken" : "";
      made.push(element("rect", { ...place, class: "box under" }), element("rect", { ...place, class: `box ${kind}${taken}` }));
      const x = label === "2" ? x2 - 14 * unit : x1 + 4 * unit, y = label === "3" ? y2 - 6 * unit : y1 + 18 * unit;
      if (label) labels.push(element("text", { transform: `translate(${x} ${y}) scale(${unit})` }, label));
    }
    svg.replaceChildren(svg.querySelector("title"), ...made, ...labels);
  }

  // ---- verdicts ----
  async function save(place, said) {
    state.saves += 1;
    const { replaced, ...reply } = await transport.save({ class: state.at, n: state.queue[place].n, ...said });
    state.queue[place].verdict = said.verdict;
    Object.assign(state.classes[state.at], reply);
    state.saves += 1;
    standing();
    watch();
    return replaced;  // perhaps said meanwhile in another window
  }

  const decide = (verdict, boxes = []) => guarded(async () => {
    const { item, place } = state, { version } = item, seconds = Math.round(performance.now() - state.shownAt) / 1000;
    const replaced = await save(place, { verdict, boxes, seconds, version });
    state.times.push(Math.min(seconds, 60));
    state.undo.push({ place, verdict: replaced.verdict || "skip", boxes: replaced.boxes, version });
    say(`Saved: ${saying(verdict, boxes)}.`);
    await advance();
    const last = state.undo.slice(-REFUSED);
    if (state.item && last.length === REFUSED && last.every((one) => state.queue[one.place].verdict === "none")) say(DRAW);
  });

  function absent() {  // many in a row may be a key held down, or another class than is meant
    const others = state.undo.slice().reverse().findIndex(({ place }) => state.queue[place].verdict !== "absent");
    const count = (others < 0 ? state.undo.length : others) + 1;
    if (count % ASK || state.asked === count) { decide("absent"); return; }
    state.asked = count;
    problem({ message: `${count} pictures in a row without ${state.classes[state.at].name}: is that so? Press n again if it is, z to go back` });
  }

  const undo = () => guarded(async () => {
    const last = state.undo[state.undo.length - 1];
    if (!last) return;
    const { verdict, boxes, version } = last;
    await save(last.place, { verdict, boxes: verdict === "boxes" ? boxes : [], seconds: null, version, undo: true });
    state.undo.pop();
    await show(last.place);
    say("The last verdict is taken back.");
  });

  function pick(index) {
    const box = state.item.candidates[index];
    if (!box) return;
    if (!state.more) { decide("boxes", [box]); return; }
    toggle(box);
  }

  function toggle(box) {
    state.taken = state.taken.includes(box) ? state.taken.filter((other) => other !== box) : [...state.taken, box];
    say(`${counted(state.taken.length, "box", "es")} taken; Enter ends.`);
    draw();
  }

  function finish() {
    if (state.drawing && state.drawn) take(state.drawn);
    else if (state.more && state.taken.length) decide("boxes", state.taken);
    else say("Take or draw a box first.");
  }

  function take(box) {
    state.drawn = null;
    if (state.more) { state.drawing = false; toggle(box); } else decide("boxes", [box]);
  }

  function more() {
    state.more = !state.more;
    state.taken = [];
    say(state.more ? "More than one: take or draw every object, then Enter." : "One object.");
    draw();
  }

  // ---- drawing ----
  function startDrawing() {
    const { item } = state;
    state.drawing = !state.drawing;
    const middle = [item.width * 0.25, item.height * 0.25, item.width * 0.75, item.height * 0.75];
    state.drawn = state.drawing ? [...(item.candidates[0] || middle)] : null;
    draw();
    say(state.drawing ? "Drawing." : "Drawing ended.");
  }

  function moved(key, resize) {
    const { width, height } = state.item, sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    const across = key === "ArrowLeft" || key === "ArrowRight";
    let [x1, y1, x2, y2] = state.drawn;
    const step = sign * STEP * (across ? width : height);
    if (across) { x2 = clamp(x2 + step, x1 + 1, width); if (!resize) x1 = clamp(x1 + step, 0, x2 - 1); }
    else { y2 = clamp(y2 + step, y1 + 1, height); if (!resize) y1 = clamp(y1 + step, 0, y2 - 1); }
    state.drawn = [x1, y1, x2, y2];
    draw();
    say(described(state.drawn, state.item));
  }

  const clamp = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));

  function inPicture(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform($("whole").getScreenCTM().inverse());
    return [clamp(point.x, 0, state.item.width), clamp(point.y, 0, state.item.height)];
  }

  const between = ([ax, ay], [bx, by]) => [Math.min(ax, bx), Math.min(ay, by), Math.max(ax, bx), Math.max(ay, by)];

  function pixelWide([x1, y1, x2, y2]) {  // thin objects have boxes, too
    const left = Math.min(x1, state.item.width - 1), top = Math.min(y1, state.item.height - 1);
    return [left, top, Math.max(x2, left + 1), Math.max(y2, top + 1)];
  }

  $("whole").addEventListener("pointerdown", (event) => {
    if (!state.item || event.button || (event.pointerType === "touch" && !state.drawing)) return;  // a finger scrolls
    event.preventDefault();
    state.drag = inPicture(event);
    $("whole").setPointerCapture(event.pointerId);
  });
  $("whole").addEventListener("pointermove", (event) => {
    if (!state.drag) return;
    state.drawn = between(state.drag, inPicture(event));
    draw();
  });
  $("whole").addEventListener("pointerup", (event) => {
    if (!state.drag) return;
    const box = between(state.drag, inPicture(event));
    state.drag = null;
    if (Math.max(box[2] - box[0], box[3] - box[1]) * $("whole").getScreenCTM().a >= SLIP) take(pixelWide(box));
    else { state.drawn = state.drawing ? state.drawn : null; draw(); }  // a click draws nothing
  });
  $("whole").addEventListener("pointercancel", () => { state.drag = null; state.drawn = null; draw(); });

  // ---- keys and buttons ----
  const step = (by) => guarded(async () => {
    const unusable = [];
    let place = state.place + by;
    while (state.queue[place] && !(await showUsable(place, unusable))) place += by;
    say(state.queue[place] ? "" : "There is no picture further on.");
    if (unusable.length) throw new Error(unusable.join("; "));
  });
  const hide = () => {
    const hidden = document.body.classList.toggle("hidden");
    $("hide").setAttribute("aria-pressed", hidden);
  };
  const focusOn = (index) => () => { if (state.item && index < state.item.candidates.length) { state.focus = index; draw(); } };
  const actions = {
    right: () => decide("right"), pick1: () => pick(0), pick2: () => pick(1), pick3: () => pick(2), none: () => decide("none"),
    draw: startDrawing, absent, more, finish, previous: () => step(-1), next: () => step(1), undo, hide,
  };
  const keys = { r: "right", 1: "pick1", 2: "pick2", 3: "pick3", x: "none", w: "draw", n: "absent", m: "more", z: "undo", h: "hide",
    ArrowLeft: "previous", ArrowRight: "next" };
  const act = (name) => { if ($(name) && (state.item || ["previous", "undo"].includes(name))) actions[name](); };
  for (const id of Object.keys(actions).filter($)) {
    $(id).addEventListener("click", (event) => {
      if (event.detail) event.currentTarget.blur();  // after a mouse's click Space takes the first box again
      act(id);
    });
  }
  KINDS.forEach((_, index) => {
    $(`pick${index + 1}`).addEventListener("focus", focusOn(index));
    $(`pick${index + 1}`).addEventListener("pointerenter", focusOn(index));
  });

  addEventListener("keydown", (event) => {
    const inControl = event.target.closest("button, select");
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat && !state.drawing) return;
    if (event.target.closest("select") && !["1", "2", "3"].includes(event.key)) return;
    const drawingKey = state.drawing && state.drawn, name = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (drawingKey && event.key.startsWith("Arrow")) moved(event.key, event.shiftKey);
    else if (drawingKey && event.key === "Escape") startDrawing();
    else if (event.key === "Enter" && !inControl && (state.more || state.drawing)) finish();
    else if (event.key === " " && !inControl) act(drawingKey ? "finish" : $("right") ? "right" : "pick1");
    else if (name) act(name);
    else return;
    event.preventDefault();
  });
  addEventListener("resize", () => state.item && draw());

  let isKeyed = false;  // the keyboard may choose on; after a mouse's choice keys are verdicts again
  $("class").addEventListener("keydown", () => { isKeyed = true; });
  $("class").addEventListener("mousedown", () => { isKeyed = false; });
  $("class").addEventListener("change", async () => {
    if (!isKeyed) $("class").blur();
    while (state.busy) await state.job;
    await guarded(() => openClass(Number($("class").value)));
    $("class").value = state.at;  // the former one where the server did not answer
  });
  guarded(async () => {
    state.classes = await transport.classes();
    $("class").replaceChildren(...state.classes.map(({ name }, index) => new Option(printable(name), index)));
    const first = Math.max(0, state.classes.findIndex((one) => one.left > 0));
    $("class").value = first;
    await openClass(first);
    $("class").blur();
    watch();
  });
})();
