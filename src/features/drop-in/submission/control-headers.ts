/**
 * @module The header fields by which a client says what SMTP cannot: `X-Tassis-*`, and those of Resend and Postmark.
 * Reads them into the fields of a send request; the message that is sent has none of them. Leaves out what is repeated
 * or too long in those of Postmark, whose programs know no such limits. Pure; throws AppError 422 with the name of the
 * field.
 */
import type { SendRequest } from '#features/sending/accept/model.ts'
import { isMarketingStream, toSlug } from '#features/webhooks/webhooks/payload/postmark.ts'
import { invalid } from '#platform/errors.ts'
import { type JsonObject, parseJsonObject } from '#platform/json-object.ts'

/** Decoded header fields of a message, in its order. */
export type Fields = readonly (readonly [name: string, value: string])[]

export interface Controls
  extends Pick<
    SendRequest,
    | 'tags'
    | 'stream'
    | 'transactional'
    | 'metadata'
    | 'send_at'
    | 'tracking'
    | 'template_alias'
    | 'template_data'
    | 'locale'
  > {
  readonly idempotencyKey?: string
}

/** How many servers a message has passed, set by services like this one, because they drop its Received fields. */
export const HOPS_FIELD = 'X-Tassis-Hops'

const CONTROL_FIELD = /^(?:x-tassis-.*|x-pm-.*|resend-idempotency-key)$/i
const PM_FIELD = 'x-pm-'
const PM_TAG = 'x-pm-tag'
const PM_METADATA = 'x-pm-metadata-'
const KNOWN = 'Idempotency-Key Tags Stream Metadata Send-At Tracking Template Template-Data Locale'.split(' ')

const MAX_KEY_LENGTH = 256
const TRUE = /^(?:true|yes|on|1)$/i
const FALSE = /^(?:false|no|off|0)$/i

export const isControlField = (name: string): boolean => CONTROL_FIELD.test(name)

/** Reads the control fields. Where a field of ours and one of another provider say the same, ours counts. */
export function readControls(fields: Fields, maxTagCharacters: number, dropped: Set<string>): Controls {
  const values = new Map<string, string>()
  for (const [name, value] of fields) if (isControlField(name)) setOnce(values, name, value, dropped)
  requireKnown(values)
  if ((values.get(PM_TAG)?.length ?? 0) > maxTagCharacters) {
    values.delete(PM_TAG)
    dropped.add('X-PM-Tag')
  }
  const idempotencyKey = readKey(values)
  const tags = readTags(values)
  const metadata = readMetadata(values)
  const stream = values.get('x-tassis-stream') ?? toSlug(values.get('x-pm-message-stream') ?? '')
  const sendAt = values.get('x-tassis-send-at')
  const tracking = readTracking(values)
  const template = values.get('x-tassis-template')
  const templateData = values.get('x-tassis-template-data')
  const locale = values.get('x-tassis-locale')
  return {
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(tags.length > 0 && { tags }),
    ...(metadata && { metadata }),
    ...(stream && { stream }),
    ...(isMarketingStream(values.get('x-pm-message-stream')) && { transactional: false }),
    ...(sendAt && { send_at: sendAt }),
    ...(tracking !== undefined && { tracking }),
    ...(template && { template_alias: template }),
    ...(locale && { locale }),
    ...(templateData && { template_data: requireObject('X-Tassis-Template-Data', templateData) }),
  }
}

function setOnce(values: Map<string, string>, name: string, value: string, dropped: Set<string>): void {
  const key = name.toLowerCase()
  const first = values.get(key) ?? value.trim()
  if (first !== value.trim()) {
    if (!key.startsWith(PM_FIELD)) throw invalid(name, `The header ${name} must be set only once.`)
    dropped.add(name)
  }
  values.set(key, first)
}

/** A misspelt field would otherwise be ignored, and its mail sent immediately, or twice. */
function requireKnown(values: ReadonlyMap<string, string>): void {
  const known = new Set([...KNOWN.map((name) => `x-tassis-${name.toLowerCase()}`), HOPS_FIELD.toLowerCase()])
  for (const name of values.keys())
    if (name.startsWith('x-tassis-') && !known.has(name))
      throw invalid(
        name.slice(0, 80),
        `The header ${name.slice(0, 80)} is not known; those that set something are X-Tassis-${KNOWN.join(', X-Tassis-')}.`,
      )
}

function readKey(values: ReadonlyMap<string, string>): string | undefined {
  const key = values.get('x-tassis-idempotency-key') ?? values.get('resend-idempotency-key')
  if (key !== undefined && (key === '' || key.length > MAX_KEY_LENGTH))
    throw invalid(
      'X-Tassis-Idempotency-Key',
      `X-Tassis-Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters; it has ${key.length}.`,
    )
  return key
}

const readTags = (values: ReadonlyMap<string, string>): string[] =>
  [...(values.get('x-tassis-tags') ?? '').split(','), values.get(PM_TAG) ?? '']
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')

function readMetadata(values: ReadonlyMap<string, string>): JsonObject | undefined {
  const own = values.get('x-tassis-metadata')
  const ofPostmark = [...values]
    .filter(([name]) => name.startsWith(PM_METADATA))
    .map(([name, value]) => [name.slice(PM_METADATA.length), value] as const)
  if (!own && ofPostmark.length === 0) return undefined
  return { ...Object.fromEntries(ofPostmark), ...(own ? requireObject('X-Tassis-Metadata', own) : {}) }
}

/** Of two fields about the same part, a no counts. */
function readTracking(values: ReadonlyMap<string, string>): SendRequest['tracking'] {
  const own = values.get('x-tassis-tracking')
  const isOn = own !== undefined && TRUE.test(own)
  if (own !== undefined && !isOn && !FALSE.test(own) && !/^(?:opens|clicks)$/i.test(own))
    throw invalid('X-Tassis-Tracking', 'X-Tassis-Tracking must be true, false, opens or clicks.')
  const choose = (part: string, other: string | undefined, yes: RegExp): boolean | undefined => {
    const given = other === undefined || other === '' ? undefined : yes.test(other)
    return own === undefined ? given : (isOn || own.toLowerCase() === part) && given !== false
  }
  const opens = choose('opens', values.get('x-pm-trackopens'), TRUE)
  const clicks = choose('clicks', values.get('x-pm-tracklinks'), /^html/i)
  if (opens === undefined && clicks === undefined) return undefined
  return { ...(opens !== undefined && { opens }), ...(clicks !== undefined && { clicks }) }
}

function requireObject(name: string, text: string): JsonObject {
  const value = parseJsonObject(text)
  if (!value) throw invalid(name, `${name} must be a JSON object, such as {"order": "42"}.`)
  return value
}
