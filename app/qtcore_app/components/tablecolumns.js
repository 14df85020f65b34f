// What each column of a table is: a row for each with its kind, which can be changed, its levels, whose order can be, and its gaps.

const LISTED = 12 // levels of a column that has an order and is not opened
const WORDS = {binary: "binary", categorical: "levels", ordered: "levels in order", count: "whole numbers", real: "numbers", ignore: "left out"}

export function render({model, el}) {
  const root = node("div", {class: "qt columns", tabindex: -1}), head = node("h3"), problem = node("div", {class: "problem", role: "alert"})
  const list = node("div", {class: "list", role: "list"}), notes = node("ul", {class: "notes"})
  root.append(head, problem, list, notes)
  const send = (...words) => { model.packet = [nextNumber(), ...words] }
  const opened = new Set()

  function kindOf(column, place) {
    const select = node("select", {"aria-label": `kind of ${column.name}`, "data-key": `kind ${place}`,
      onchange: () => send("kind", place, Number(select.value))},
      ...model.kinds.map((kind, k) => node("option", {value: k, text: WORDS[kind] ?? kind, selected: k === column.kind})))
    return select
  }
  function levelsOf(column, place) {
    const kind = model.kinds[column.kind]
    if (column.why) return node("span", {class: "states why", text: column.why})
    if (kind !== "ordered") return node("span", {class: "states", text: `${column.number ? `${column.states.length} bins: ` : ""}${column.states.join(", ")}`, title: column.states.join(", ")})
    const all = opened.has(place) || column.states.length <= LISTED, box = node("span", {class: "states order"})
    column.states.slice(0, all ? undefined : LISTED).forEach((state, level) => {
      const move = (to, sign, word) => node("button", {type: "button", text: sign, "data-key": `${word} ${place} ${state}`, disabled: to < 0 || to >= column.states.length,
        title: `Move ${state} ${word}`, "aria-label": `move ${state} ${word}`, onclick: () => send("move", place, level, to)})
      box.append(node("span", {class: "level"}, move(level - 1, "‹", "down"), node("span", {text: state}), move(level + 1, "›", "up")))
    })
    if (!all) box.append(node("button", {type: "button", text: `${column.states.length - LISTED} more …`, onclick: () => { opened.add(place); draw() }}))
    return box
  }
  function draw() {
    const focused = root.getRootNode().activeElement?.dataset?.key
    head.textContent = `Columns · ${model.rows.toLocaleString("en")} rows`
    problem.textContent = model.problem; problem.hidden = !model.problem
    list.replaceChildren(...model.columns.map((column, place) => node("div", {class: "column", role: "listitem", "data-kind": model.kinds[column.kind]},
      node("span", {class: "name", text: column.name, title: column.name}), kindOf(column, place), levelsOf(column, place),
      node("span", {class: "gaps", text: column.gaps ? `${Math.max(1, Math.round(100 * column.gaps / model.rows))} % gaps` : "no gaps"}))))
    notes.replaceChildren(...model.notes.map((note) => node("li", {text: note}))); notes.hidden = !model.notes.length
    if (focused) [...list.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused)?.focus()
  }
  for (const name of ["columns", "rows", "notes", "problem"]) model.on(name, draw)
  focusWhenSkipped(model, root)
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  draw(); dark()
  return root
}
