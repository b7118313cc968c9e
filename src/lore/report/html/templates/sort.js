'use strict';
(() => {
// tables that are sorted by a click on a head
const figure = text => /^[-–$\d.,\s%]+$/.test(text) ? parseFloat(text.replace(/[^-\d.]/g, '')) : NaN;
document.querySelectorAll('table.sort').forEach(table => {
  table.querySelectorAll('thead th').forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') !== 'descending';
      table.querySelectorAll('thead th').forEach(each => each.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const rows = [...table.tBodies[0].rows].map(row => {
        const text = row.cells[column] ? row.cells[column].textContent.trim() : '';
        return {row, text, number: figure(text)};
      });
      const order = (a, b) => {
        if (isNaN(a.number) !== isNaN(b.number)) return isNaN(a.number) ? 1 : -1;
        const less = isNaN(a.number) ? a.text.localeCompare(b.text) : a.number - b.number;
        return down ? -less : less;
      };
      table.tBodies[0].append(...rows.sort(order).map(each => each.row));
    });
  });
});
})();
