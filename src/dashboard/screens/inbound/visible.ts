/** @module Makes characters visible that strangers use to disguise names: after U+202E, `gpj.exe` is read as a picture. Pure. */

/** Controls, direction overrides and embeddings, isolates, invisible separators; not the joiners of scripts and emoji. */
const DISGUISES = /[\0-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2069\ufeff]/g

/** The text with each such character as its code, such as `[U+202E]`. For addresses and file names, not for prose. */
export const toVisible = (text: string): string =>
  text.replace(DISGUISES, (character) => `[U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`)

/** The name in a From header, without the address; undefined when it has none. */
export function findDisplayName(header: string | null): string | undefined {
  const name = header
    ?.replace(/<[^<>]*>[^<>]*$/, '')
    .replace(/^\s*"|"\s*$/g, '')
    .trim()
  return name && name !== header?.trim() && !/^\s*$/.test(name) ? toVisible(name) : undefined
}

function isAddress(word: string): boolean {
  const [local, domain, ...more] = word.split('@')
  return Boolean(local) && domain !== undefined && domain.indexOf('.') > 0 && !domain.endsWith('.') && more.length === 0
}

/** An address in the name of a From header that is not the address of the header: it deceives who reads only the name. */
export function findClaimedAddress(header: string | null, from: string | null): string | undefined {
  const claimed = findDisplayName(header)
    ?.split(/[\s<>"]+/)
    .find(isAddress)
  return claimed?.toLowerCase() === from?.toLowerCase() ? undefined : claimed
}
