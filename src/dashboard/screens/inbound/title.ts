/** @module The subject of received mail as a title. Pure. */

const MAX_TITLE_LENGTH = 200

/** The subject as the title of a screen. */
export function toTitle(subject: string): string {
  if (subject.trim() === '') return '(no subject)'
  const characters = [...subject]
  return characters.length > MAX_TITLE_LENGTH ? `${characters.slice(0, MAX_TITLE_LENGTH).join('')}…` : subject
}
