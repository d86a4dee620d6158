// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox: browse, view, edit, upload, download, rename, delete.

import { download, readFile, rpc, writeFile } from './api.js';
import { ask, button, bytes, during, field, h, name, shown, sure, toast, when } from './dom.js';

const TEXT_MAX = 1 << 20;
const PICTURE_MAX = 16 << 20;
const PICTURES = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', bmp: 'image/bmp' };
const drafts = new Map(); // by sandbox and path: text that was not saved when another tab was chosen
const places = new Map(); // by sandbox: the directory that was shown last

function join(directory, file) {
  return directory === '/' ? `/${file}` : `${directory}/${file}`;
}

function isDirectory(entry) {
  return entry.type === 'FILE_TYPE_DIRECTORY';
}

class Files {
  constructor(where, id) {
    this.id = id;
    this.crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Directory' });
    this.picker = h('input', { type: 'file', multiple: true, hidden: true, 'aria-label': 'Files to upload' });
    this.picker.addEventListener('change', () => this.upload([...this.picker.files]));
    this.progress = h('div', { class: 'progress', 'aria-live': 'polite' });
    this.body = h('div', { class: 'files' });
    where.append(h('div', { class: 'strip' }, this.crumbs, h('span', { class: 'actions' }, button('Upload', () => this.picker.click()),
      button('New folder', () => this.newFolder()), button('New file', () => this.newFile()), button('Reload', () => this.list(this.path)))),
    this.picker, this.progress, this.body);
    this.acceptDrops(where);
  }

  async begin() {
    await this.list(places.get(this.id) ?? await this.home());
  }

  async home() {
    const { entry } = await rpc(this.id, 'filesystem.Filesystem/Stat', { path: '.' });
    return entry.path;
  }

  // ---- a directory
  async list(path) {
    const { entries = [] } = await rpc(this.id, 'filesystem.Filesystem/ListDir', { path, depth: 1 });
    this.path = path;
    places.set(this.id, path);
    this.drawCrumbs();
    entries.sort((a, b) => isDirectory(b) - isDirectory(a) || (a.name < b.name ? -1 : 1));
    const head = h('thead', {}, h('tr', {}, ['Name', 'Size', 'Changed', 'Owner and mode'].map(t => h('th', { scope: 'col' }, t)),
      h('th', { scope: 'col' }, h('span', { class: 'unseen' }, 'Actions'))));
    const shownEntries = entries.slice(0, 2000);
    this.body.replaceChildren(entries.length ? h('table', {}, head, h('tbody', {}, shownEntries.map(e => this.row(e))))
      : h('p', { class: 'empty quiet' }, 'This directory is empty.'),
    entries.length > shownEntries.length && h('p', { class: 'quiet' }, `Only the first 2000 of ${entries.length} are shown.`) || '');
  }

  drawCrumbs() {
    const parts = this.path.split('/').filter(Boolean);
    const crumbs = [button('/', () => this.list('/'), { 'aria-label': 'Root directory' })];
    parts.forEach((part, i) => crumbs.push(button(name(part), () => this.list(`/${parts.slice(0, i + 1).join('/')}`))));
    crumbs.at(-1).setAttribute('aria-current', 'location');
    this.crumbs.replaceChildren(...crumbs);
  }

  row(entry) {
    const path = join(this.path, entry.name);
    const leads = entry.symlinkTarget ? h('span', { class: 'quiet' }, ' → ', name(entry.symlinkTarget)) : null;
    const sign = h('span', { class: 'sign', 'aria-hidden': 'true' }, isDirectory(entry) ? '▸' : '');
    return h('tr', {},
      h('td', {}, sign, button(name(entry.name), () => isDirectory(entry) ? this.list(path) : this.view(entry, path), { class: 'link' }), leads),
      h('td', { class: 'number' }, isDirectory(entry) ? '' : bytes(Number(entry.size ?? 0))),
      h('td', {}, when(entry.modifiedTime)),
      h('td', { class: 'quiet' }, `${shown(entry.owner)} ${shown(entry.permissions)}`),
      h('td', { class: 'row-actions' },
        !isDirectory(entry) && button('Download', () => download(this.id, path), { 'aria-label': `Download ${shown(entry.name)}` }),
        button('Rename', () => this.rename(entry, path), { 'aria-label': `Rename ${shown(entry.name)}` }),
        button('Delete', () => this.remove(entry, path), { 'aria-label': `Delete ${shown(entry.name)}` })));
  }

  async newFolder() {
    const values = await ask('New folder', [field('Name', h('input', { name: 'name', required: true, autocomplete: 'off' }))], { confirm: 'Make' });
    if (!values) return;
    await rpc(this.id, 'filesystem.Filesystem/MakeDir', { path: join(this.path, values.name) });
    await this.list(this.path);
  }

  async newFile() {
    const values = await ask('New file', [field('Name', h('input', { name: 'name', required: true, autocomplete: 'off' }))], { confirm: 'Make' });
    if (!values) return;
    const path = join(this.path, values.name);
    if (await this.stat(path)) throw new Error(`${values.name} is there already. Choose another name.`);
    await writeFile(this.id, path, new Blob([]));
    await this.list(this.path);
  }

  async rename(entry, path) {
    const values = await ask('Rename', [field('New name', h('input', { name: 'name', value: entry.name, required: true, autocomplete: 'off' }))],
      { confirm: 'Rename' });
    if (!values || values.name === entry.name) return;
    const to = values.name.startsWith('/') ? values.name : join(this.path, values.name);
    if (await this.stat(to)) throw new Error(`${values.name} is there already. Delete it first, or choose another name.`);
    await rpc(this.id, 'filesystem.Filesystem/Move', { source: path, destination: to });
    await this.list(this.path);
  }

  async remove(entry, path) {
    const text = isDirectory(entry) ? 'The folder and all in it are deleted.' : 'The file is deleted.';
    if (!await sure(`Delete ${shown(entry.name)}?`, text, 'Delete')) return;
    await rpc(this.id, 'filesystem.Filesystem/Remove', { path });
    await this.list(this.path);
  }

  async stat(path) {
    try {
      return (await rpc(this.id, 'filesystem.Filesystem/Stat', { path })).entry;
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  // ---- uploads
  acceptDrops(where) {
    const over = on => where.classList.toggle('drop', on);
    this.drops = new AbortController();
    const on = (event, act) => where.addEventListener(event, act, { signal: this.drops.signal });
    on('dragover', e => { e.preventDefault(); over(true); });
    on('dragleave', () => over(false));
    on('drop', e => { e.preventDefault(); over(false); this.upload([...e.dataTransfer.files]); });
  }

  async upload(files) {
    const directory = this.path;
    this.picker.value = '';
    for (const file of files) {
      try {
        const path = join(directory, file.name);
        const text = 'A file of this name is there already. It would be replaced.';
        if (await this.stat(path) && !await sure(`Replace ${shown(file.name)}?`, text, 'Replace')) continue;
        await this.uploadOne(file, path);
        toast(`${shown(file.name)} is uploaded`);
      } catch (error) {
        if (error.name !== 'AbortError') toast(`${shown(file.name)}: ${error.message}`, true);
      }
    }
    if (this.path === directory && !this.viewing) await this.list(directory).catch(error => toast(error.message, true));
  }

  async uploadOne(file, path) {
    const stop = new AbortController();
    const bar = h('progress', { max: 1, value: 0, 'aria-label': `Upload of ${shown(file.name)}` });
    const line = h('p', {}, name(file.name), ' ', bar, ' ', button('Cancel', () => stop.abort()));
    this.progress.append(line);
    try {
      await writeFile(this.id, path, file, part => { bar.value = part; }, stop.signal);
    } finally {
      line.remove();
    }
  }

  // ---- one file
  async view(entry, path) {
    const size = Number(entry.size ?? 0);
    const ending = entry.name.split('.').pop().toLowerCase();
    const top = h('div', { class: 'strip' }, h('strong', {}, name(entry.name)), h('span', { class: 'quiet' }, bytes(size)));
    const actions = h('span', { class: 'actions' }, button('Download', () => download(this.id, path)), button('Back', () => this.back()));
    top.append(actions);
    if (PICTURES[ending] && size <= PICTURE_MAX) {
      await this.viewPicture(top, path, PICTURES[ending]);
    } else if (size > TEXT_MAX) {
      this.viewNothing(top, `The file is too large to show here (${bytes(size)}). Download it.`);
    } else {
      const data = new Uint8Array(await (await readFile(this.id, path)).arrayBuffer());
      this.viewText(top, actions, path, data, await this.stat(path));
    }
    this.viewing = true;
  }

  viewNothing(top, why) {
    this.body.replaceChildren(top, h('p', { class: 'empty quiet' }, why));
  }

  async viewPicture(top, path, type) {
    const blob = new Blob([await (await readFile(this.id, path)).arrayBuffer()], { type });
    this.picture = URL.createObjectURL(blob);
    const image = h('img', { class: 'picture', src: this.picture, alt: shown(path) });
    image.addEventListener('error', () => this.viewNothing(top, 'This is no picture that a browser can show. Download it.'));
    this.body.replaceChildren(top, image);
  }

  // A text box keeps only "\n" at the ends of lines, so the file's own are put back when it is saved.
  viewText(top, actions, path, data, entry) {
    let text;
    try {
      text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data);
    } catch {
      this.viewNothing(top, 'This file is not text in UTF-8. Download it.');
      return;
    }
    if (text.includes('\0')) {
      this.viewNothing(top, 'This file is not text. Download it.');
      return;
    }
    const lines = text.split('\n').length - 1;
    const windows = text.split('\r\n').length - 1;
    const plain = !text.includes('\r');
    const area = h('textarea', { spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', wrap: 'off', 'aria-label': shown(path) });
    area.value = text;
    area.readOnly = !plain && (windows !== lines || text.split('\r').length - 1 !== windows);
    const save = button('Save', async () => {
      if (!await this.mayReplace(path, entry)) return;
      await writeFile(this.id, path, new Blob([plain ? area.value : area.value.replaceAll('\n', '\r\n')]));
      entry = await this.stat(path);
      this.unsaved = false;
      drafts.delete(draft);
      toast('Saved');
    }, { class: 'main' });
    const draft = `${this.id} ${path}`;
    const change = () => {
      this.unsaved = true;
      drafts.set(draft, area.value);
    };
    this.draft = draft;
    area.addEventListener('input', change);
    if (drafts.has(draft) && !area.readOnly) {
      area.value = drafts.get(draft);
      change();
      toast('Your changes that were not saved are back');
    }
    area.addEventListener('keydown', e => {
      if ((e.ctrlKey || e.metaKey) && e.key === 's') {
        e.preventDefault();
        if (!area.readOnly) save.click();
      }
    });
    if (!area.readOnly) actions.prepend(save);
    this.body.replaceChildren(top, area, area.readOnly ? h('p', { class: 'quiet' }, 'The lines of this file end in different ways, so it can only be read here.') : '');
  }

  // An agent may have changed the file since it was opened here.
  async mayReplace(path, before) {
    const now = await this.stat(path);
    if (now && now.modifiedTime === before?.modifiedTime && now.size === before?.size) return true;
    const text = now ? 'It was changed in the sandbox since you opened it. Saving loses that change.' : 'It was removed in the sandbox since you opened it.';
    return sure('Save all the same?', text, 'Save');
  }

  async back() {
    if (this.unsaved && !await sure('Leave without saving?', 'Your changes to this file are lost.', 'Leave')) return;
    drafts.delete(this.draft);
    this.forget();
    await this.list(this.path);
  }

  forget() {
    this.unsaved = this.viewing = false;
    if (this.picture) URL.revokeObjectURL(this.picture);
    this.picture = null;
  }

  leave() {
    this.drops.abort();
    this.forget();
  }
}

// The browser asks before it closes a page that has such text.
addEventListener('beforeunload', event => { if (drafts.size) event.preventDefault(); });

export function filesTab(where, sandbox) {
  const files = new Files(where, sandbox.sandboxID);
  const begin = () => files.begin().catch(error => files.body.replaceChildren(
    h('p', { class: 'error' }, shown(error.message)), button('Try again', () => begin())));
  during(where, begin);
  return { leave: () => files.leave() };
}
