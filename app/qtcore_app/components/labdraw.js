// Drawing a graph: with the pointer (click an empty place, drag, mark), with the keyboard, and with the buttons of a row.

const STEP = 0.05, FINE_STEP = 0.01, DRAGGED = 5 // parts of the drawing per arrow key; pixels after which a press is a drag

// `look()` gives what is shown, `tell(...)` sends an action, `redraw()` draws again, `say(sentence)` speaks to the user,
// `open(file)` sends a file; `over()` is called when the user has finished.
function makeDrawing({graph, look, tell, redraw, say, open, limits, over}) {
  let on = false, drag = null, swallow = false
  const marked = new Set()
  const tool = (label, name, title, action) => node("button", {type: "button", text: label, title, "data-name": name, onclick: action})
  const input = node("input", {type: "file", accept: ".uai,.txt,text/plain", hidden: true, "aria-label": "a UAI file"})
  const tools = {
    add: tool("Add variable", "add", "A variable where there is room; or click an empty place", () => add(-1, 0)),
    connect: tool("Connect", "connect", "", connect),
    remove: tool("Delete", "delete", "Delete the marked variables, or the selected factor (Delete)", () => remove()),
    undo: tool("Undo", "undo", "Undo the last change of the graph", () => { marked.clear(); tell("undo") }),
    open: tool("Open UAI…", "open", `A graph of up to ${limits.variables} variables of two states, with factors of up to three of them`, () => input.click()),
    save: tool("Save UAI", "save", "The graph with the numbers that are shown, without what is observed", () => tell("save")),
    done: tool("Done", "done", "Back to messages and evidence (Escape)", () => turn(false)),
  }
  const row = node("div", {class: "tools", role: "group", "aria-label": "draw"}, ...Object.values(tools), input)

  function turn(value) {
    on = value; marked.clear(); drag = null
    redraw()
    if (!on) over()
  }
  function add(x, y) {
    if (look().names.length < limits.variables) tell("add", x, y)
    else say(`The lab takes up to ${limits.variables} variables, since it enumerates all states.`)
  }
  function connect() {
    if (look().factors.length >= limits.factors) { say(`The lab draws up to ${limits.factors} factors.`); return }
    const variables = [...marked]
    marked.clear()
    tell(variables.length === 3 ? "join3" : "join", ...variables)
  }
  function remove(kind = null, number = -1) {
    const {selected, names} = look()
    const variables = kind === "node" ? [number] : kind === null ? [...marked] : []
    const factor = kind === "edge" ? number : kind === null && !variables.length && selected[0] === "e" ? Number(selected.slice(1)) : -1
    if (variables.length && variables.length >= names.length) { say("One variable stays."); return }
    marked.clear()
    if (factor >= 0) tell("delete", 1, factor)
    else for (const i of variables.sort((a, b) => b - a)) tell("delete", 0, i)
  }
  function mark(i) {
    if (marked.has(i)) marked.delete(i)
    else marked.add(i)
    tell("select", 0, i)
    redraw()
  }
  function draw() {
    const data = look(), names = [...marked].sort((a, b) => a - b).map((i) => label(data.names[i])), several = names.length === 2 || names.length === 3
    tools.connect.textContent = several ? `Connect ${names.join(names.length === 2 ? " – " : ", ")}` : "Connect"
    tools.connect.title = several ? names.length === 2 ? "An edge" : "A third-order factor: it wants an even number of ones" : "Mark two variables for an edge, three for a third-order factor"
    tools.connect.disabled = !several
    tools.remove.disabled = !marked.size && data.selected[0] !== "e"
    tools.undo.disabled = !data.can_undo
    row.hidden = !on
  }

  // ------------------------------------------------------------------ pointer
  graph.root.addEventListener("pointerdown", (event) => {
    const target = event.target.closest("[data-node]")
    swallow = false
    if (on && target) drag = {i: Number(target.dataset.node), x: event.clientX, y: event.clientY, moving: false}
  })
  graph.root.addEventListener("pointermove", (event) => {
    if (!drag || !(event.buttons & 1)) return
    if (!drag.moving && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < DRAGGED) return
    if (!drag.moving) graph.root.setPointerCapture(event.pointerId)
    drag.moving = true
    look().places[drag.i] = graph.placeAt(event)
    redraw()
  })
  graph.root.addEventListener("pointerup", () => {
    if (drag?.moving) { swallow = true; tell("move", drag.i, ...look().places[drag.i]) }
    drag = null
  })
  graph.root.addEventListener("click", (event) => {
    if (!on || swallow) { swallow = false; return }
    if (event.target.closest(".node, .pill, .bias")) return
    add(...graph.placeAt(event))
  })

  // ------------------------------------------------------------------ keyboard
  graph.root.addEventListener("keydown", (event) => {
    const target = event.target.closest("[data-node], [data-edge]")
    if (!on || event.ctrlKey || event.metaKey || event.altKey) return
    const kind = target?.dataset.node !== undefined ? "node" : "edge", number = Number(target?.dataset[kind] ?? -1), step = STEPS[event.key]
    if (event.key === "Escape") turn(false)
    else if (!target) return
    else if (event.key === "Delete" || event.key === "Backspace") remove(kind, number)
    else if (event.key === " " && kind === "node") mark(number)
    else if (step && kind === "node") {
      const size = event.shiftKey ? FINE_STEP : STEP, places = look().places
      places[number] = places[number].map((v, c) => Math.round(1000 * Math.max(0, Math.min(1, v + size * step[c]))) / 1000)
      redraw(); tell("move", number, ...places[number])
    } else return
    event.preventDefault(); event.stopPropagation()
  })

  input.addEventListener("change", async () => {
    const [file] = input.files
    input.value = ""
    if (!file) return
    if (file.size > limits.bytes) { say(`The file has ${Math.round(file.size / 1024)} kB; the lab opens UAI files of up to ${limits.bytes / 1024} kB.`); return }
    marked.clear()
    open(new Uint8Array(await file.arrayBuffer()))
  })
  return {row, turn, draw, mark, get on() { return on }, get marked() { return on ? marked : null },
    forget(count) { for (const i of [...marked]) if (i >= count) marked.delete(i) }}
}
