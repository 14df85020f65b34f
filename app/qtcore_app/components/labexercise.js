// An exercise: a question, three predictions, a button to press, and what came of it.

function makeExercise(tell) {
  const head = node("b"), question = node("div", {class: "question"}), words = node("div", {class: "answer", role: "status"})
  const go = (text, name, title, target) => node("button", {type: "button", text, title, "aria-label": title, "data-name": name, onclick: () => tell("exercise", target())})
  let now = null
  const back = go("‹", "exercise-back", "The exercise before", () => now.number - 1), next = go("›", "exercise-next", "The next exercise", () => now.number + 1), close = go("×", "exercise-close", "Leave the exercises", () => 0)
  const choices = [0, 1, 2].map((k) => node("button", {type: "button", "data-choice": k, onclick: () => tell("guess", k)}))
  const press = node("button", {type: "button", class: "press", "data-name": "press", onclick: () => tell("press")})
  const root = node("div", {class: "exercise", role: "group", "aria-label": "exercise"}, node("div", {class: "line"}, head, node("span", {class: "turns"}, back, next, close)),
    question, words, node("div", {class: "row"}, node("span", {text: "Predict:"}), ...choices, press))
  function draw(exercise) {
    root.hidden = !exercise
    now = exercise
    if (!exercise) return
    head.textContent = `Exercise ${exercise.number} of ${exercise.count}: ${exercise.title}`
    question.textContent = exercise.question
    choices.forEach((each, k) => {
      const known = exercise.pressed && exercise.answer >= 0
      each.textContent = exercise.choices[k] + (known && k === exercise.answer ? " ✓" : known && k === exercise.guess ? " ✗" : "")
      each.setAttribute("aria-pressed", String(k === exercise.guess))
      each.classList.toggle("right", known && k === exercise.answer); each.classList.toggle("wrong", known && k === exercise.guess && k !== exercise.answer)
      each.disabled = exercise.pressed
    })
    press.textContent = exercise.press
    press.disabled = exercise.guess < 0 || exercise.pressed
    press.title = exercise.guess < 0 ? "Predict first" : ""
    back.disabled = exercise.number === 1; next.disabled = exercise.number === exercise.count
    words.textContent = exercise.words; question.hidden = exercise.pressed // one in the place of the other
    words.dataset.right = exercise.answer < 0 ? "" : String(exercise.answer === exercise.guess)
  }
  return {root, draw}
}
