/** @module What the templates of a broadcast see of one recipient, and what is done to what they make. Pure. */

import { hasHeaderBreak, toOneLine } from '#features/setup/templates/render.ts'
import type { TemplateFault } from '#platform/template/renderer.ts'

/** A contact as it was when the recipients were fixed. */
export interface BroadcastContact {
  /** Public id. */
  readonly id: string
  readonly email: string
  readonly metadata: Readonly<Record<string, unknown>>
}

export interface BroadcastData {
  /** JSON object that all recipients share, as `formatSharedData` gives it. */
  readonly shared: string
  readonly contact: BroadcastContact
  readonly unsubscribeUrl: string
}

/** What all recipients share, as JSON: the variables that were given, and over them `list`. */
export const formatSharedData = (
  templateData: Readonly<Record<string, unknown>> | undefined,
  list: { readonly name: string },
): string => JSON.stringify({ ...templateData, list: { name: list.name } })

/**
 * The variables as JSON: those that all share, and over them `contact` (each entry of its metadata by its own name, and all of them below `metadata`) and
 * `unsubscribe_url`. Text is put together, because what all share can be long and is never looked into here.
 */
export function formatBroadcastData({ shared, contact, unsubscribeUrl }: BroadcastData): string {
  const { id, email, metadata } = contact
  const own = JSON.stringify({ contact: { ...metadata, metadata, id, email }, unsubscribe_url: unsubscribeUrl })
  return `${shared.slice(0, -1)},${own.slice(1)}`
}

/** The message of a fault in words of a broadcast: what is missing of a contact is missing in its metadata. */
export const toContactMessage = ({ message, variable }: Pick<TemplateFault, 'message' | 'variable'>): string =>
  variable?.startsWith('contact.')
    ? message.replace('is missing in template_data', 'is missing in the metadata of the contact')
    : message

/** Whether a source has nothing to be rendered. */
export const hasNoTemplateSyntax = (source: string): boolean => !/\{[{%#]/.test(source)

const MAX_SUBJECT_LENGTH = 998

/** Why a rendered subject cannot be that of a message, as a sentence; undefined: it can. */
export function findSubjectProblem(rendered: string): string | undefined {
  if (hasHeaderBreak(rendered))
    return 'The data of this contact bring a line break or a NUL character into the subject; take it out of them.'
  const { length } = toOneLine(rendered)
  if (length === 0) return 'The subject of the template is empty for this contact.'
  return length > MAX_SUBJECT_LENGTH
    ? `The subject of the template has ${length} characters for this contact; at most ${MAX_SUBJECT_LENGTH} are allowed.`
    : undefined
}
