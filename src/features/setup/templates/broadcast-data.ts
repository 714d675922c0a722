/** @module Builds the template data of one broadcast recipient, and checks what the templates render. Pure. */

import { hasControl, toOneLine } from '#features/setup/templates/render.ts'
import type { TemplateFault } from '#platform/template/renderer.ts'

/** A contact as it was when the recipients were snapshotted. */
export interface BroadcastContact {
  /** Public id. */
  readonly id: string
  readonly email: string
  readonly metadata: Readonly<Record<string, unknown>>
}

export interface BroadcastData {
  /** JSON object that all recipients share, from `formatSharedData`. */
  readonly shared: string
  readonly contact: BroadcastContact
  readonly unsubscribeUrl: string
}

/** The data that all recipients share, as JSON: the provided variables, and `list`, which takes precedence. */
export const formatSharedData = (
  templateData: Readonly<Record<string, unknown>> | undefined,
  list: { readonly name: string },
): string => JSON.stringify({ ...templateData, list: { name: list.name } })

/**
 * The variables of one recipient as JSON: the shared ones, `contact` (each metadata entry by its own name, and all of
 * them in `metadata`) and `unsubscribe_url`. Joins strings, because the shared data can be long and is never parsed
 * here.
 */
export function formatBroadcastData({ shared, contact, unsubscribeUrl }: BroadcastData): string {
  const { id, email, metadata } = contact
  const own = JSON.stringify({ contact: { ...metadata, metadata, id, email }, unsubscribe_url: unsubscribeUrl })
  return `${shared.slice(0, -1)},${own.slice(1)}`
}

/**
 * The message of a template error in broadcast terms: a missing contact field is reported as missing in the metadata of
 * the contact.
 */
export const toContactMessage = ({ message, variable }: Pick<TemplateFault, 'message' | 'variable'>): string =>
  variable?.startsWith('contact.')
    ? message.replace('is missing in template_data', 'is missing in the metadata of the contact')
    : message

export const hasNoTemplateSyntax = (source: string): boolean => !/\{[{%#]/.test(source)

const MAX_SUBJECT_LENGTH = 998

/** Why a rendered subject is invalid, as a sentence; undefined when it is valid. */
export function findSubjectProblem(rendered: string): string | undefined {
  if (hasControl(rendered))
    return 'The data of this contact puts a control character into the subject; remove it from the data.'
  const { length } = toOneLine(rendered)
  if (length === 0) return 'The subject of the template is empty for this contact.'
  return length > MAX_SUBJECT_LENGTH
    ? `The subject of the template has ${length} characters for this contact; at most ${MAX_SUBJECT_LENGTH} are allowed.`
    : undefined
}
