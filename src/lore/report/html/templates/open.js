'use strict';
(() => {
// a place inside something that is closed: open it
const show = () => {
  const place = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (!place) return;
  for (let at = place; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
  place.scrollIntoView({block: 'center'});
  if (place.tabIndex >= -1 && place.hasAttribute('tabindex')) place.focus({preventScroll: true});
};
addEventListener('hashchange', show);
document.addEventListener('click', event => {
  const link = event.target.closest && event.target.closest('a');
  if (link && (link.getAttribute('href') || '') === location.hash) show();
});
show();
// all is printed
addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(each => { each.open = true; }));
})();
