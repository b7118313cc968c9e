'use strict';
(() => {
// zoom into a series; its figures are those of the table
const COLUMNS = 240, HEIGHT = 100;
document.querySelectorAll('[data-turns]').forEach(lane => {
  const turns = +lane.dataset.turns;
  const plot = lane.querySelector('.plot'), areas = plot.querySelector('.areas');
  const whole = areas.innerHTML, box = areas.getAttribute('viewBox');
  let series = null, from = 0, to = turns;
  const read = () => series || (series = [...lane.querySelector('.turns tbody').rows].map(row => {
    const cell = place => parseInt(row.cells[place].textContent.replace(/,/g, ''), 10);
    const counts = [cell(2), cell(3) || 0, cell(4) || 0];
    if (isNaN(counts[0])) counts[0] = cell(6) || 0;
    const foreseen = row.cells[6].textContent === '=' ? counts[0] : cell(6);
    const kinds = [row.className, ...(row.dataset.marks || '').split(' ')];
    return {counts, all: counts[0] + counts[1] + counts[2], foreseen, row, kinds};
  }));
  // a mark of the whole stands for several turns: in a few of them each has its own, made like it
  const drawn = [...plot.querySelectorAll('a')], kindOf = mark => mark.getAttribute('class');
  let own = [];
  const marks = () => {
    own.forEach(mark => mark.remove());
    own = [];
    if (turns <= COLUMNS || to - from > COLUMNS) return drawn;
    [...new Set(drawn.map(kindOf))].forEach(kind => read().slice(from, to).forEach(({row, kinds}, place) => {
      if (!kinds.includes(kind)) return;
      const mark = drawn.find(each => kindOf(each) === kind).cloneNode(true), link = row.querySelector('a');
      const text = 'turn ' + row.cells[0].textContent + ': ' + row.cells[8].textContent;
      mark.dataset.at = from + place;
      mark.setAttribute('href', link && kind === row.className ? link.getAttribute('href') : '#' + row.id);
      mark.setAttribute('aria-label', text);
      mark.querySelector('title').textContent = text;
      own.push(mark);
    }));
    plot.append(...own);
    drawn.forEach(mark => { mark.style.display = 'none'; });
    return [...own, ...drawn.filter(mark => kindOf(mark) === 'trial')];
  };
  const draw = () => {
    if (to - from >= turns) {
      areas.innerHTML = whole;
      areas.setAttribute('viewBox', box);
    } else {
      const some = read().slice(from, to), step = Math.max(1, Math.ceil(some.length / COLUMNS)), columns = [];
      for (let at = 0; at < some.length; at += step)
        columns.push(some.slice(at, at + step).reduce((a, b) => b.counts[0] * (a.all || 1) < a.counts[0] * (b.all || 1) ? b : a));
      const most = Math.max(1, ...some.map(each => each.all));
      const y = value => HEIGHT - Math.round(HEIGHT * Math.min(value, most) / most);
      const path = (value, open) => (open ? 'M0 ' + y(value(columns[0])) : 'M0 ' + HEIGHT) +
        columns.map((each, place) => 'V' + y(value(each)) + 'H' + (place + 1)).join('') + (open ? '' : 'V' + HEIGHT + 'Z');
      areas.setAttribute('viewBox', '0 0 ' + columns.length + ' ' + HEIGHT);
      const paths = {uncached: path(each => each.all), written: path(each => each.counts[0] + each.counts[1]),
        read: path(each => each.counts[0]), foreseen: path(each => each.foreseen || 0, true)};
      areas.querySelectorAll('path').forEach(each => each.setAttribute('d', paths[each.getAttribute('class')]));
    }
    marks().forEach(mark => {
      const at = +mark.dataset.at;
      mark.style.display = at < from || at >= to ? 'none' : '';
      mark.querySelector('svg').setAttribute('x', (at + .5 - from) / (to - from) * 100 + '%');
    });
    said.textContent = to - from >= turns ? ' drag over the plot to zoom' : ' turns ' + lane.querySelector('.turns tbody').rows[from].cells[0].textContent + ' to ' + lane.querySelector('.turns tbody').rows[to - 1].cells[0].textContent;
  };
  const go = (begin, end) => {
    const wide = Math.max(8, Math.min(turns, Math.round(end - begin)));
    from = Math.max(0, Math.min(turns - wide, Math.round(begin)));
    to = from + wide;
    draw();
  };
  const bar = document.createElement('div'), said = document.createElement('span');
  bar.className = 'zoom';
  said.className = 'words';
  const wide = () => to - from;
  [['zoom in', () => go(from + wide() / 4, to - wide() / 4)], ['zoom out', () => go(from - wide() / 2, to + wide() / 2)],
    ['earlier', () => go(from - wide() / 2, to - wide() / 2)], ['later', () => go(from + wide() / 2, to + wide() / 2)],
    ['all', () => go(0, turns)]].forEach(([name, act]) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = name;
    button.addEventListener('click', act);
    bar.append(button);
  });
  bar.append(said);
  plot.after(bar);
  let start = null, pick = null;
  const place = event => {
    const area = plot.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - area.left) / area.width));
  };
  plot.addEventListener('pointerdown', event => { if (event.button === 0 && !event.target.closest('a')) start = place(event); });
  plot.addEventListener('pointermove', event => {
    if (start === null) return;
    if (!pick) {
      pick = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
      pick.setAttribute('class', 'pick');
      pick.setAttribute('height', '100%');
      plot.append(pick);
    }
    const now = place(event);
    pick.setAttribute('x', Math.min(start, now) * 100 + '%');
    pick.setAttribute('width', Math.abs(now - start) * 100 + '%');
  });
  addEventListener('pointerup', event => {
    if (start === null) return;
    const begin = Math.min(start, place(event)), end = Math.max(start, place(event));
    if (pick) pick.remove();
    if (pick && end - begin > .01) go(from + begin * wide(), from + end * wide());
    start = pick = null;
  });
  plot.addEventListener('dblclick', () => go(0, turns));
  draw();
});
})();
