// What moves on the site: the frames of an explorer under its sliders, and all that is folded when a page is printed.

function movable(box) {
  const image = box.parentElement.querySelector("img");
  const still = { src: image.src, alt: image.alt };
  const sliders = JSON.parse(box.dataset.sliders);
  const inputs = [...box.querySelectorAll("input")];
  const count = sliders.reduce((product, slider) => product * slider.values.length, 1);
  const address = number => `${box.dataset.folder}/${String(number).padStart(2, "0")}.png`;

  function move() {
    let number = 0;
    const said = sliders.map((slider, k) => {
      const place = Number(inputs[k].value);
      number = number * slider.values.length + place;
      inputs[k].nextElementSibling.textContent = slider.values[place];
      inputs[k].setAttribute("aria-valuetext", slider.values[place]);
      return `${slider.label} ${slider.values[place]}`;
    });
    const start = sliders.every((slider, k) => Number(inputs[k].value) === slider.start);
    image.src = start ? still.src : address(number);
    image.alt = start ? still.alt : `The same picture at ${said.join(", ")}.`;
  }

  function fetchAll() {
    for (let number = 0; number < count; number += 1) new Image().src = address(number);
  }

  inputs.forEach(input => input.addEventListener("input", move));
  box.addEventListener("pointerover", fetchAll, { once: true });
  box.addEventListener("focusin", fetchAll, { once: true });
  box.hidden = false;
  move(); // a browser may remember where a slider stood
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("div.explorer").forEach(movable);
});

window.addEventListener("beforeprint", () => {
  document.querySelectorAll("article details:not([open])").forEach(folded => {
    folded.open = true;
    folded.dataset.folded = "";
  });
});

window.addEventListener("afterprint", () => {
  document.querySelectorAll("details[data-folded]").forEach(folded => {
    folded.open = false;
    delete folded.dataset.folded;
  });
});
