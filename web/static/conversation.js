// Further turns are loaded in place; without scripts the same link opens them as a page.
document.addEventListener("click", async (event) => {
  const more = event.target.closest("[data-more]");
  if (more) {
    event.preventDefault();
    more.setAttribute("aria-busy", "true");
    const response = await fetch(more.dataset.more);
    if (!response.ok) { location.assign(more.href); return; }
    const part = document.createElement("template");
    part.innerHTML = await response.text(); // rendered and escaped by the server
    const first = part.content.querySelector(".turn");
    more.closest(".more").replaceWith(part.content);
    if (first) { first.tabIndex = -1; first.focus({ preventScroll: true }); }
    return;
  }
});

for (const place of document.querySelectorAll("[data-fragment]")) {
  fetch(place.dataset.fragment).then(async (response) => { if (response.ok) place.innerHTML = await response.text(); }).catch(() => {}); // rendered and escaped by the server
}
