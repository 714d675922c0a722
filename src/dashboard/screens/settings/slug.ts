/** @module The slug that is proposed for a name. */

const MAX_SLUG_LENGTH = 63

/** What is left of a name in small letters, digits and hyphens; empty when nothing is. */
export const toSlug = (name: string): string =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}+/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, MAX_SLUG_LENGTH)
    .replace(/-$/, '')
