/** @module File names of strangers, made harmless: to be shown, to be stored, and never to lead anywhere. Pure. */

const MAX_FILENAME_LENGTH = 255
/** What a cut name keeps of what follows its last dot. */
const MAX_EXTENSION_LENGTH = 20

/**
 * The last part of a name, without folders, control characters, line ends and marks that turn the direction of writing (which make `exe.txt` of
 * `txt.exe`); at most 255 characters.
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
  // A character of two units may have been cut in half.
  return (base.isWellFormed() ? base : base.slice(0, -1)) + extension
}
