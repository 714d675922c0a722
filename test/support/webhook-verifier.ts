/**
 * @module Checks a webhook delivery as a receiver would that knows only the documented interface and contract: the
 * request, the signature, the payload by event. Shares no code with the sender and must never import any, since common
 * errors would go unnoticed.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

/** A received request; header names in lower case, values of a repeated one joined by `, `. */
export interface DeliveredRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  /** The exact octets received. */
  readonly body: Uint8Array
}

export interface VerifierOptions {
  /** The signing secret from the creation response. */
  readonly secret: string
  /** Time of arrival, in ms since 1970. */
  readonly nowMs: number
  /** Maximum difference between `t` and that time, either way. */
  readonly toleranceSeconds?: number
  /** The account of the payload; default: any. */
  readonly accountId?: string
  /** The prefix of `-Signature`, `-Event` and `-Attempt`. */
  readonly headerPrefix?: string
}

/** The documented tolerance. */
const TOLERANCE_SECONDS = 300

/** Returns the violations of a delivery, one sentence each; empty when it is valid. */
export function findWebhookViolations(request: DeliveredRequest, options: VerifierOptions): string[] {
  const header = (name: string) => request.headers[`${options.headerPrefix ?? 'X-Service'}-${name}`.toLowerCase()]
  const contentType = request.headers['content-type']
  return [
    ...(request.method === 'POST' ? [] : [`the method is ${request.method}, not POST`]),
    ...(contentType === 'application/json' ? [] : [`Content-Type is ${contentType}, not application/json`]),
    ...signatureViolations(header('Signature'), request.body, options),
    ...attemptViolations(header('Attempt')),
    ...payloadViolations(header('Event'), request.body, options.accountId),
  ]
}

/** `t=<unix_timestamp>,v1=<hex>`, signed over `<t>.<raw_request_body>`. */
function signatureViolations(header: string | undefined, body: Uint8Array, options: VerifierOptions): string[] {
  if (header === undefined) return ['there is no signature']
  const parts = header.split(',').map((part) => part.trim())
  for (const name of ['t=', 'v1=']) {
    const times = parts.filter((part) => part.startsWith(name)).length
    if (times !== 1) return [`the signature has ${times} of ${name}, not one`]
  }
  const [, t, v1] = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/.exec(header) ?? []
  if (t === undefined || v1 === undefined) return [`the signature is not t=<seconds>,v1=<64 lower-case hex>: ${header}`]
  const violations: string[] = []
  const awaySeconds = Math.abs(options.nowMs / 1000 - Number(t))
  const toleranceSeconds = options.toleranceSeconds ?? TOLERANCE_SECONDS
  if (awaySeconds > toleranceSeconds)
    violations.push(`t is ${Math.round(awaySeconds)} s away, over ${toleranceSeconds} s`)
  const expected = createHmac('sha256', options.secret).update(`${t}.`).update(body).digest()
  if (!timingSafeEqual(expected, Buffer.from(v1, 'hex'))) violations.push('v1 does not sign this body with this secret')
  return violations
}

const attemptViolations = (header: string | undefined): string[] =>
  header !== undefined && /^[1-9]\d*$/.test(header) ? [] : [`the attempt is ${header}, not an integer from 1`]

function payloadViolations(eventHeader: string | undefined, body: Uint8Array, accountId?: string): string[] {
  const payload = jsonObject(body)
  if (payload === undefined) return ['the body is not a JSON object in UTF-8']
  if (eventHeader === undefined) return ['there is no event header']
  const shape = Object.hasOwn(PAYLOADS, eventHeader) ? PAYLOADS[eventHeader] : undefined
  if (shape === undefined) return [`there is no event ${eventHeader}`]
  const violations: string[] = []
  // The only payload without a required `event` may still have one: payloads may gain fields.
  const event = payload['event']
  if (event !== eventHeader && !(event === undefined && eventHeader === WITHOUT_EVENT))
    violations.push(`the event is ${event} in the body and ${eventHeader} in the header`)
  violations.push(...shapeViolations(shape, payload, ''))
  if (accountId !== undefined && payload['account_id'] !== undefined && payload['account_id'] !== accountId)
    violations.push(`the account is ${payload['account_id']}, not ${accountId}`)
  return violations
}

function jsonObject(body: Uint8Array): Payload | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

type Payload = Readonly<Record<string, unknown>>

/** The required form of a field. A missing field is `undefined`. */
interface Kind {
  readonly name: string
  readonly matches: (value: unknown) => boolean
  /** Nested fields. */
  readonly shape?: Shape
}

type Shape = Readonly<Record<string, Kind>>

/** Extra fields are never a violation: receivers ignore unknown ones. */
const shapeViolations = (shape: Shape, payload: Payload, path: string): string[] =>
  Object.entries(shape).flatMap(([field, kind]) => {
    const value = payload[field]
    if (!kind.matches(value)) return [`${path}${field} is ${JSON.stringify(value)}, not ${kind.name}`]
    return kind.shape !== undefined && isObject(value) ? shapeViolations(kind.shape, value, `${path}${field}.`) : []
  })

const isObject = (value: unknown): value is Payload =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const matchText = (name: string, pattern: RegExp): Kind => ({
  name,
  matches: (value) => typeof value === 'string' && pattern.test(value),
})
const allowNull = (kind: Kind): Kind => ({
  name: `${kind.name} or null`,
  matches: (value) => value === null || kind.matches(value),
})
const allowAbsent = (kind: Kind): Kind => ({
  ...kind,
  name: `${kind.name} or missing`,
  matches: (value) => value === undefined || kind.matches(value),
})
const matchOneOf = (...values: readonly string[]): Kind => ({
  name: `one of ${values.join(', ')}`,
  matches: (value) => typeof value === 'string' && values.includes(value),
})
const matchObject = (shape: Shape): Kind => ({ name: 'an object', matches: isObject, shape })

const STRING: Kind = { name: 'a string', matches: (value) => typeof value === 'string' }
const NULL: Kind = { name: 'null', matches: (value) => value === null }
const ABSENT: Kind = { name: 'missing', matches: (value) => value === undefined }
const NUMBER: Kind = { name: 'a number', matches: (value) => typeof value === 'number' }
const ARRAY: Kind = { name: 'an array', matches: Array.isArray }
const NON_EMPTY = matchText('a non-empty string', /\S/)
const ADDRESS = matchText('an address', /^\S.*@[^\s@]+$/)
const UUID = matchText('a plain UUID', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i)
const MESSAGE_ID = matchText('a Message-ID in angle brackets', /^<[^<>\s]+@[^<>\s]+>$/)
const URL_OF_LINK = matchText('a link', /^https?:\/\/\S+$/i)

const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/
const TIME: Kind = {
  name: 'an RFC 3339 time',
  matches(value) {
    if (typeof value !== 'string' || !RFC_3339.test(value)) return false
    // The pattern allows 31 February, which a Date normalises to another day.
    const day = value.slice(0, 10)
    const made = new Date(`${day}T00:00:00Z`)
    return !Number.isNaN(made.getTime()) && made.toISOString().startsWith(day)
  },
}

const COMMON_FIELDS: Shape = { event: STRING, account_id: UUID, timestamp: TIME }

/** Send-lifecycle events name their recipient, because an email may have several. */
const EMAIL_FIELDS: Shape = { ...COMMON_FIELDS, email_id: UUID, event_id: UUID, recipient: ADDRESS }

const MESSAGE_FIELDS: Shape = { ...EMAIL_FIELDS, from: STRING, to: STRING, subject: STRING, domain: STRING }

/** Without a session, as with a null MX, there is neither a reply nor a source address. */
const FAILURE_FIELDS: Shape = {
  ...MESSAGE_FIELDS,
  smtp_response: allowNull(STRING),
  ip_address: allowNull(STRING),
  reason: NON_EMPTY,
}

const WITHOUT_EVENT = 'mailbox.message.received'

const PAYLOADS: Readonly<Record<string, Shape>> = {
  sent: { ...MESSAGE_FIELDS, smtp_response: NULL, ip_address: NULL },
  delivered: { ...MESSAGE_FIELDS, smtp_response: NON_EMPTY, ip_address: NON_EMPTY },
  // The rejection text is guaranteed; a source address exists only with a session.
  bounced: { ...MESSAGE_FIELDS, smtp_response: NON_EMPTY, ip_address: allowNull(STRING) },
  failed: FAILURE_FIELDS,
  rejected: FAILURE_FIELDS,
  uncertain: FAILURE_FIELDS,
  deferred: {
    ...EMAIL_FIELDS,
    reason: NON_EMPTY,
    next_retry_at: TIME,
    from: ABSENT,
    to: ABSENT,
    subject: ABSENT,
    domain: ABSENT,
    smtp_response: ABSENT,
    ip_address: ABSENT,
  },
  opened: EMAIL_FIELDS,
  clicked: { ...EMAIL_FIELDS, link_url: URL_OF_LINK },
  complained: {
    ...EMAIL_FIELDS,
    to_address: ADDRESS,
    complainer: ADDRESS,
    feedback_type: matchOneOf('abuse', 'fraud', 'virus', 'not-spam', 'other'),
    original_message_id: MESSAGE_ID,
  },
  unsubscribed: { ...EMAIL_FIELDS, to_address: ADDRESS, stream: STRING, list_id: allowNull(UUID) },
  'account.auto_paused': {
    ...COMMON_FIELDS,
    source: matchOneOf('reputation', 'scam_classifier', 'registration_burst', 'admin'),
    reason: STRING,
  },
  'insights.generated': { ...COMMON_FIELDS, insight_id: UUID, summary: STRING, findings: ARRAY },
  'email.inbound': {
    ...COMMON_FIELDS,
    inbound_email_id: UUID,
    domain: STRING,
    from: STRING,
    to: { name: 'a string or an array', matches: (value) => STRING.matches(value) || ARRAY.matches(value) },
    subject: STRING,
    text_body: allowNull(STRING),
    html_body: allowNull(STRING),
    attachments: ARRAY,
    message_id: allowNull(STRING),
    authentication: matchObject({}),
    source_ip: allowNull(STRING),
  },
  [WITHOUT_EVENT]: {
    timestamp: TIME,
    mailbox_id: UUID,
    message: matchObject({
      id: UUID,
      from: STRING,
      reply_to: allowNull(STRING),
      subject: STRING,
      text_body: allowNull(STRING),
      text_body_stripped: allowAbsent(STRING),
      html_body: allowNull(STRING),
      attachments: ARRAY,
      message_id: allowNull(STRING),
      in_reply_to: allowNull(STRING),
      references: {
        name: 'a string, an array or null',
        matches: (v) => allowNull(STRING).matches(v) || ARRAY.matches(v),
      },
      thread_id: STRING,
      classification: allowAbsent(matchObject({ label: STRING, confidence: NUMBER })),
      received_at: TIME,
    }),
    authentication: matchObject({}),
    source_ip: allowNull(STRING),
  },
  test: { ...COMMON_FIELDS, data: matchObject({ message: STRING }) },
}
