// One record: for each variable a button with its role (known, asked, unknown) and a bar with its marginal, layer by layer.
// The roles live here; each change goes out as one packet: u32 number, then a byte for each variable.

const UNKNOWN = 0, TARGET = 128, SET_0 = 253, SET_1 = 254, KNOWN = 255 // known as in the record, or as somebody set it
const isKnown = (role) => role >= SET_0, isSet = (role) => role === SET_0 || role === SET_1
const NEXT = {[KNOWN]: TARGET, [SET_0]: TARGET, [SET_1]: TARGET, [TARGET]: UNKNOWN, [UNKNOWN]: KNOWN}
const WORDS = {[KNOWN]: "known", [SET_0]: "known", [SET_1]: "known", [TARGET]: "asked", [UNKNOWN]: "unknown"}
const CHARTS = 250 // pixels
const JOINT = { // the joint answers that can be shown in the place of the bars: the button's label, and a sentence
  samples: ["New samples", "Six complete records, a column each (filled: 1), and behind them the most probable one."],
  next: ["Ask again", "Bits that the answer to each question would tell about what is asked (its best: ★)."],
  why: ["Explain again", "What each known group did to the probability of the chosen variable (brown: raised, blue: lowered it): with it minus without it."],
}
const SEARCHED = 130 // variables, from which on they can be searched
const PAINTS = [["recorded", KNOWN], ["asked", TARGET], ["unknown", UNKNOWN]] // what a click on a square of a board makes of it, or a state
const CELLS = 7, BEST = 3 // squares of a variable; questions that are named

export function render({model, el}) {
  const V = model.names.length
  let data = parse(model.frames), roles = new Uint8Array(V), runs = 0
  const root = node("div", {class: "qt player record", tabindex: -1})
  const deck = makeDeck(model, () => data, draw, () => false)
  const rows = node("div", {class: "rows"}), charts = node("div", {class: "charts"}), readout = node("div", {class: "readout", role: "status"})
  const key = (role, text, words) => node("span", {}, node("i", {class: "role", "data-role": role, text}), words)
  const legend = node("div", {class: "keys"}, key("known", "1", "known"), key("asked", "?", "asked and scored"), key("unknown", "–", "unknown"),
    node("span", {}, node("i", {class: "tick"}), "truth"), node("span", {class: "runs"}))
  const {head, ask} = makeHead(model, ""), key2 = node("span", {class: "words"})
  const joint = node("div", {class: "joint"}, head, key2)
  const board = makeBoard(), search = node("input", {type: "search", placeholder: "find a variable …", "aria-label": "find a variable", oninput: find})
  search.hidden = V < SEARCHED
  root.append(node("div", {class: "main"}, deck.controls, joint, board.root, node("div", {class: "about"}, legend, search, readout), rows), charts)
  const panels = [...model.charts, {inspect: true}].map(panel)
  const units = node("ol"), speaking = node("div", {class: "chart speaking"}, node("h3", {text: "Hidden units that speak to it"}), units)
  charts.append(...panels.map((each) => each.block), speaking)

  const lines = model.names.map((name, i) => {
    const role = node("button", {type: "button", class: "role", "data-variable": i, onclick: () => change([i], NEXT[roles[i]]), onfocus: () => choose(i)})
    const fills = [node("i", {class: "fill"}), node("i", {class: "fill second"})], tick = node("i", {class: "tick"}), number = node("span", {class: "number"})
    const squares = Array.from({length: CELLS}, () => node("i")), cells = node("span", {class: "cells"}, ...squares)
    const track = node("span", {class: "track"}, ...fills, tick)
    const line = node("div", {class: "line", onclick: () => choose(i)}, role, node("span", {class: "name", text: name}), track, cells, number)
    return {name, role, fills, tick, track, squares, cells, number, line}
  })
  function find() { // words in any order; a group without a hit goes as a whole
    const words = search.value.toLowerCase().split(/\s+/)
    for (const each of lines) each.line.hidden = !words.every((word) => `${each.full ?? each.name}`.toLowerCase().includes(word))
    for (const block of rows.children) block.hidden = ![...block.querySelectorAll(".line")].some((line) => !line.hidden)
  }
  // Squares that show who is believed to be on them; a click makes of one what was chosen above the board.
  function makeBoard() {
    const [height = 0, width = 0] = model.board, squares = [], box = node("div", {class: "board", hidden: !height})
    if (!height) return {root: box, draw() {}}
    const [, first, last] = model.groups[0], states = model.names.slice(first, last)
    let chosen = "asked"
    const picks = [...PAINTS.map(([name]) => name), ...states].map((name) => node("button", {type: "button", text: name, "data-pick": name, onclick: () => pick(name)}))
    const pick = (name) => { chosen = name; for (const each of picks) each.setAttribute("aria-pressed", String(each.dataset.pick === name)) }
    const act = (start, stop) => {
      const all = Array.from({length: stop - start}, (_, k) => start + k), role = PAINTS.find(([name]) => name === chosen)
      change(all, role ? role[1] : all.map((i) => model.names[i] === chosen ? SET_1 : SET_0))
    }
    const grid = node("div", {class: "squares", style: `grid-template-columns: repeat(${width}, auto)`})
    for (let row = height - 1; row >= 0; row--) for (let column = 0; column < width; column++) {
      const [title, start, stop] = model.groups[column * height + row], at = squares.length
      const square = node("button", {type: "button", class: "square", "data-square": title, onclick: () => { choose(start); act(start, stop) }})
      square.addEventListener("keydown", (event) => {
        const step = STEPS[event.key]
        if (!step) return
        event.preventDefault(); event.stopPropagation()
        const x = at % width + step[0], y = Math.floor(at / width) + step[1]
        if (x >= 0 && x < width && y >= 0 && y < height) squares[y * width + x].square.focus()
      })
      squares.push({square, title, start, stop})
    }
    grid.append(...squares.map((each) => each.square))
    box.append(node("div", {class: "picks"}, node("span", {text: "a click makes a square"}), ...picks), grid)
    pick(chosen)
    function draw() {
      for (const {square, title, start, stop} of squares) {
        const own = roles.subarray(start, stop), known = own.every(isKnown) || own.some((role, k) => isKnown(role) && truthOf(start + k) > 0.5)
        const word = known ? "known" : own.includes(TARGET) ? "asked" : "unknown" // a piece that is known leaves nothing open
        const p = states.map((_, k) => known || isKnown(own[k]) ? truthOf(start + k) : valueAt(data, data.runs[0], deck.cursor, "mean", start + k))
        const total = p.reduce((a, b) => a + b, 0) || 1, x = 100 * p[states.indexOf("x")] / total, o = 100 * p[states.indexOf("o")] / total
        square.style.setProperty("--x", `${x}%`); square.style.setProperty("--xo", `${x + o}%`)
        square.dataset.role = word; square.toggleAttribute("data-set", own.some(isSet))
        square.textContent = known ? ["×", "", "○"][p.findIndex((v) => v > 0.5)] ?? "" : word === "asked" ? "?" : ""
        const values = states.map((state, k) => `${state} ${p[k].toFixed(2)}`).join(", "), truth = states.find((_, k) => truthOf(start + k) > 0.5) ?? "–"
        square.title = `${title}: ${word}; ${values}; truth ${truth}`
        square.setAttribute("aria-label", square.title)
      }
    }
    return {root: box, draw}
  }
  const groups = [] // and what each of them is set to
  for (const [title, start, stop] of model.groups) {
    const block = node("div", {class: stop - start > 20 ? "group long" : "group"})
    const all = Array.from({length: stop - start}, (_, k) => start + k)
    if (title) {
      for (const i of all) lines[i].full = `${title}: ${lines[i].name}`
      const level = node("select", {"aria-label": `set ${title}`, title: `Set ${title} to a value, known from then on`,
        onchange: () => change(all, all.map((i) => level.value === "" ? KNOWN : String(i) === level.value ? SET_1 : SET_0))},
        node("option", {value: "", text: "set …"}), ...all.map((i) => node("option", {value: i, text: lines[i].name})), node("option", {value: "none", text: "none of these"}))
      groups.push({all, level})
      block.append(node("div", {class: "about-group"}, node("button", {type: "button", class: "title", text: title, title: `All of ${title}: known, asked, unknown`,
        onclick: () => change(all, all.every((i) => roles[i] === roles[start]) ? NEXT[roles[start]] : KNOWN)}), level))
    }
    block.append(...all.map((i) => lines[i].line))
    rows.append(block)
  }

  function change(which, role) {
    which.forEach((i, k) => { roles[i] = Array.isArray(role) ? role[k] : role })
    const packet = new Uint8Array(4 + V), seq = nextNumber()
    new DataView(packet.buffer).setUint32(0, seq, true)
    packet.set(roles, 4)
    draw()
    window.dispatchEvent(new CustomEvent("qtcore:packet", {detail: {seq, at: performance.now()}}))
    model.packet = packet.buffer
  }
  function choose(i) { if (model.variable !== i) { model.variable = i; mark(); if (data) inspect() } }
  function mark() { lines.forEach((each, i) => each.line.classList.toggle("chosen", i === model.variable)) }
  const truthOf = (i) => isSet(roles[i]) ? roles[i] - SET_0 : data.truthBytes ? data.truthBytes[i] / 255 : null

  function drawLine(each, i) {
    const word = WORDS[roles[i]], truth = truthOf(i), known = isKnown(roles[i]), values = data.runs.map((run) => known ? truth : valueAt(data, run, deck.cursor, "mean", i))
    each.line.dataset.role = word
    each.role.dataset.role = word; each.role.toggleAttribute("data-set", isSet(roles[i]))
    each.role.textContent = known ? String(Math.round(truth)) : roles[i] === TARGET ? "?" : "–"
    each.role.setAttribute("aria-label", `${each.full ?? each.name}: ${known ? `${each.role.textContent}, ` : ""}${word}`)
    each.line.title = `${each.full ?? each.name}: ${word}; ${data.runs.map((run, r) => `${data.runs.length > 1 ? `${run.label} ` : ""}p = ${pretty(values[r])}`).join(", ")}; truth ${truth}`
    each.fills.forEach((fill, r) => { fill.style.left = "0"; fill.style.width = `${100 * (values[r] ?? 0)}%`; fill.hidden = r >= values.length; delete fill.dataset.sign })
    each.tick.style.left = `${100 * truth}%`; each.tick.hidden = known
    each.number.textContent = known ? "" : values.map((p) => p.toFixed(2)).join(" ")
    each.number.classList.toggle("off", !known && Math.abs(values[0] - truth) > 0.5)
    each.number.dataset.p = values.map((p) => p.toFixed(3)).join(" ")
    if (model.shown === "samples") drawSquares(each, i)
    else if (model.shown === "next") drawBits(each, i)
    else if (model.shown === "why") drawMoved(each, i)
  }
  // Joint answers in the place of a bar and its number.
  let drawn = new Uint8Array(0), bits = new Float32Array(0), most = 0, ranked = [], moved = new Float32Array(0), farthest = 0
  function take2() {
    drawn = bytesOf(model.samples)
    bits = new Float32Array(bytesOf(model.bits).slice().buffer).map((value) => Math.max(0, value)) // NaN stays
    ranked = [...bits.keys()].filter((i) => !Number.isNaN(bits[i])).sort((a, b) => bits[b] - bits[a])
    most = ranked.length ? bits[ranked[0]] : 0
    moved = new Float32Array(bytesOf(model.moved).slice().buffer)
    farthest = moved.reduce((a, b) => Math.max(a, Math.abs(b) || 0), 0)
  }
  function tell(each, text) { each.role.setAttribute("aria-label", `${each.role.getAttribute("aria-label")}; ${text}`); each.line.title += `; ${text}` }
  function drawSquares(each, i) {
    const values = each.squares.map((_, k) => drawn.length ? drawn[k * V + i] : 2)
    each.squares.forEach((square, k) => { square.dataset.value = values[k] })
    const ones = values.slice(0, -1).filter((value) => value === 1).length, complete = !values.includes(2)
    each.number.textContent = complete && !isKnown(roles[i]) ? `${ones}/${CELLS - 1}` : ""
    each.number.classList.remove("off")
    if (complete) tell(each, `1 in ${ones} of ${CELLS - 1} samples, most probable ${values.at(-1)}`)
  }
  function drawBits(each, i) {
    const value = bits.length ? bits[i] : NaN, asked = !Number.isNaN(value)
    each.fills.forEach((fill, r) => { fill.hidden = r > 0; fill.style.width = `${asked && most > 0 ? 100 * value / most : 0}%` })
    each.tick.hidden = true
    each.number.textContent = asked ? value.toFixed(value < 0.0995 ? 3 : 2) : ""
    each.number.classList.remove("off")
    if (asked) tell(each, `its answer would tell ${value.toFixed(3)} bits`)
  }
  function drawMoved(each, i) { // from the middle: to the right if it raised the probability
    const value = moved.length ? moved[i] : NaN, usable = !Number.isNaN(value) && farthest > 0, part = usable ? 50 * value / farthest : 0
    each.fills.forEach((fill, r) => {
      fill.hidden = r > 0; fill.dataset.sign = part < 0 ? "down" : "up"
      fill.style.left = `${50 + Math.min(0, part)}%`; fill.style.width = `${Math.abs(part)}%`
    })
    each.tick.hidden = true
    each.number.textContent = usable && Math.abs(value) >= 0.005 ? `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}` : ""
    each.number.classList.remove("off")
    if (usable) tell(each, `moved the chosen variable by ${value.toFixed(3)}`)
  }
  function drawSpeaking() {
    speaking.hidden = model.shown !== "why"
    units.replaceChildren(...model.units.map((each) => node("li", {}, node("b", {text: each.moved}), ` ${each.name} `, node("small", {text: each.text}))))
  }
  function drawJoint() {
    drawSpeaking()
    const [label, words] = JOINT[model.shown] ?? ["", ""]
    joint.hidden = !label; ask.textContent = label; key2.textContent = words
    root.dataset.shown = model.shown
    root.classList.toggle("stale", model.stale && model.shown !== "marginals")
    lines.forEach((each, i) => each.line.classList.toggle("best", model.shown === "next" && i === ranked[0] && most > 0))
    if (model.shown === "next" && ranked.length && model.share >= 1 && !model.stale)
      readout.textContent = `Ask next: ${ranked.slice(0, BEST).map((i) => `${lines[i].full ?? lines[i].name} (${bits[i].toFixed(3)} bits)`).join(", then ")}`
  }
  function inspect() {
    const {heading, body} = panels.at(-1), i = model.variable
    if (!(i >= 0 && i < V)) { heading.textContent = "One variable"; nothing(body, "Click a variable."); return }
    const name = lines[i].full ?? lines[i].name
    heading.replaceChildren(name, node("small", {text: ` · truth ${truthOf(i)}`})); heading.title = `The marginal of ${name} after each layer`
    const series = data.runs.map((run, r) => ({label: run.label, colour: SERIES[r], values: Array.from({length: run.count}, (_, k) => valueAt(data, run, k, "mean", i))}))
    plot(body, series, {title: heading.title, low: 0, high: 1, total: deck.total(), cursor: deck.cursor, width: CHARTS, names: data.runs.length > 1, move: deck.move,
      baseline: {label: "", value: truthOf(i)}})
  }
  function count() {
    const asked = lines.map((_, i) => i).filter((i) => roles[i] === TARGET), known = roles.filter(isKnown).length
    const right = (run) => asked.filter((i) => Math.abs(valueAt(data, run, deck.cursor, "mean", i) - truthOf(i)) < 0.5).length
    const result = asked.length ? `; correct at threshold 0.5: ${data.runs.map((run) => `${data.runs.length > 1 ? `${run.label} ` : ""}${right(run)}/${asked.length}`).join(", ")}` : ""
    readout.textContent = `${known} known, ${asked.length} asked, ${V - known - asked.length} unknown${result}`
  }
  function draw() {
    if (!data) return
    if (runs !== data.runs.length) {
      runs = data.runs.length
      root.classList.toggle("pair", runs > 1)
    }
    legend.lastChild.replaceChildren(...(runs > 1 ? data.runs.map((run, r) => node("span", {}, node("i", {class: "run", style: `background:${SERIES[r]}`}), run.label)) : []))
    lines.forEach(drawLine); board.draw()
    for (const {all, level} of groups) {
      const wanted = all.every((i) => isSet(roles[i])) ? String(all.find((i) => roles[i] === SET_1) ?? "none") : ""
      if (level.value !== wanted) level.value = wanted
      level.toggleAttribute("data-set", wanted !== "")
    }
    for (const each of panels.slice(0, -1)) curve(each, data, deck, CHARTS)
    inspect(); count(); mark(); drawJoint()
    deck.show(root)
  }

  rows.addEventListener("keydown", (event) => { // up and down go from variable to variable
    const at = Number(event.target.dataset?.variable ?? -1), step = {ArrowUp: -1, ArrowDown: 1}[event.key]
    if (at < 0 || !step) return
    event.preventDefault(); lines[Math.max(0, Math.min(V - 1, at + step))].role.focus()
  })
  root.addEventListener("keydown", deck.keys)
  focusWhenSkipped(model, lines[0].role)
  function take(bytes) { if (bytes.length === 4 + V) roles = bytes.slice(4) } // u32 number, roles
  take2()
  model.on("units", drawSpeaking)
  for (const name of ["samples", "bits", "moved"]) model.on(name, () => { take2(); draw() })
  for (const name of ["shown", "stale"]) model.on(name, draw)
  model.on("share", () => { if (model.share >= 1) draw() })
  take(bytesOf(model.given))
  take(bytesOf(model.packet)) // what was changed since; empty when Python gave something later
  model.on("given", () => { take(bytesOf(model.given)); draw() })
  model.on("frames", () => {
    const next = parse(model.frames)
    if (!next || (data && next.seq < data.seq)) return
    data = next
    deck.arrived(); draw()
    window.dispatchEvent(new CustomEvent("qtcore:frames", {detail: {seq: data.seq, count: deck.last() + 1, done: deck.last() >= deck.total(), at: performance.now()}}))
  })
  model.on("variable", () => { mark(); if (data) inspect() })
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  draw(); dark()
  return root
}
