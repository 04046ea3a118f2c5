// Light, dark, or as the system has it. A plain script in the head, so that the
// right colours are there before anything is drawn.
(() => {
  const kChoices = ['auto', 'light', 'dark'];
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  let choice = 'auto';
  try {
    choice = localStorage.getItem('sluice-theme') || 'auto';
  } catch { /* storage is off: the choice lasts as long as the page */
  }

  function apply() {
    const dark = choice === 'dark' || (choice !== 'light' && system.matches);
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    window.dispatchEvent(new Event('themechange'));
  }

  function label() {
    const name = choice[0].toUpperCase() + choice.slice(1);
    document.getElementById('theme-text').textContent = name;
    document.getElementById('theme').setAttribute('aria-label', `Theme: ${name}`);
  }

  function next() {
    choice = kChoices[(kChoices.indexOf(choice) + 1) % kChoices.length];
    try {
      localStorage.setItem('sluice-theme', choice);
    } catch { /* as above */
    }
    apply();
    label();
  }

  if (!kChoices.includes(choice)) choice = 'auto';
  apply();
  system.addEventListener('change', apply);
  document.addEventListener('DOMContentLoaded', () => {
    label();
    document.getElementById('theme').addEventListener('click', next);
  });
})();
