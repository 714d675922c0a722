/** @module Makes received file names safe to show and store: they never contain a path. */

const MAX_FILENAME_LENGTH = 255
/** Maximum characters of the extension that a truncated name keeps. */
const MAX_EXTENSION_LENGTH = 20

/**
 * Returns the last part of a name, without folders, control characters, line ends and characters that change the
 * writing direction (which show `txt.exe` as `exe.txt`); at most 255 characters.
 * @returns null when nothing is left
 */
export function toSafeFilename(original: string): string | null {
  const visible = original
    .toWellFormed()
    .replaceAll(/[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, '')
  const name = visible.slice(Math.max(visible.lastIndexOf('/'), visible.lastIndexOf('\\')) + 1).trim()
  if (/^\.*$/.test(name)) return null
  return name.length <= MAX_FILENAME_LENGTH ? name : truncate(name)
}

function truncate(name: string): string {
  const dot = name.lastIndexOf('.')
  const extension = dot > 0 && name.length - dot <= MAX_EXTENSION_LENGTH ? name.slice(dot) : ''
  const base = name.slice(0, MAX_FILENAME_LENGTH - extension.length)
  // Truncation may have split a character of two units.
  return (base.isWellFormed() ? base : base.slice(0, -1)) + extension
}
