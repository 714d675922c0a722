/**
 * @module The npm package `tassis`: a method for each route of the API, attachments from files and streams, bodies from
 * React, and the check of webhooks.
 */
import { API, type Api, type SendEmailRequest, type SendEmailRequestAttachment, type WebhookEvent } from './api.ts'
import { type ClientOptions, createClient, type RequestOptions } from './client.ts'

export type * from './api.ts'
export { type Pages, type Query, type RawBody, type RequestOptions, TassisError } from './client.ts'

export interface TassisOptions extends Omit<ClientOptions, 'prepare'> {
  /** Where the service is, such as `https://mail.example.com`. */
  readonly url: string
}

type ApiEmails = Api['emails']

interface Emails extends Omit<ApiEmails, 'send' | 'sendBatch'> {
  /** Sends an email. It is on disk when this resolves, and is sent once, however often the request is repeated. */
  send(email: EmailInput, options?: RequestOptions): ReturnType<ApiEmails['send']>
  /** Sends up to 500 emails. */
  sendBatch(
    batch: { readonly emails: readonly EmailInput[] },
    options?: RequestOptions,
  ): ReturnType<ApiEmails['sendBatch']>
}

/** The API of a service: `tassis.emails.send(…)`, `tassis.domains.verify(id)`, `for await (… of tassis.events.list())`. */
export interface Tassis extends Omit<Api, 'emails'> {
  readonly emails: Emails
}

/** Turns into JSON what only this package takes. */
async function prepare(body: unknown): Promise<unknown> {
  if (typeof body !== 'object' || body === null) return body
  if ('emails' in body && Array.isArray(body.emails))
    return { ...body, emails: await Promise.all(body.emails.map(prepare)) }
  return 'react' in body || 'attachments' in body ? toEmailRequest(body as EmailInput) : body
}

/** Makes a client. @throws TypeError if `url` is not one */
export const Tassis = class {
  constructor(options: TassisOptions) {
    if (!/^https?:\/\//i.test(options.url))
      throw new TypeError(`url must be that of a service, such as https://mail.example.com, not ${options.url}`)
    Object.assign(this, createClient<Api>(API, { ...options, prepare }))
  }
} as unknown as new (
  options: TassisOptions,
) => Tassis

/** Bytes, a `File` or other `Blob`, a stream, or base64. */
export type AttachmentContent =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>

/** A file to attach. */
export interface AttachmentInput extends Omit<SendEmailRequestAttachment, 'content'> {
  /** Bytes, a `File` or other `Blob`, a web stream or a stream of Node; a string is base64. */
  readonly content: AttachmentContent
}

/** An email to send. */
export interface EmailInput extends Omit<SendEmailRequest, 'attachments'> {
  readonly attachments?: readonly AttachmentInput[] | null | undefined
  /** A React element that becomes `html_body`, and `text_body` unless you set it. Needs the package @react-email/render. */
  readonly react?: unknown
}

/**
 * Reads a file to attach; only in Node, Bun and Deno.
 *
 *     attachments: [await attachFile('./invoice.pdf')]
 */
export async function attachFile(
  path: string | URL,
  fields: Partial<Omit<AttachmentInput, 'content'>> = {},
): Promise<AttachmentInput> {
  const [name = ''] = (typeof path === 'string' ? path : decodeURIComponent(path.pathname)).split(/[\\/]/).slice(-1)
  return { filename: name, ...fields, content: await readBytes(path) }
}

async function readBytes(path: string | URL): Promise<Uint8Array> {
  let readFile: (path: string | URL) => Promise<Uint8Array>
  try {
    // Loaded only here, and left alone by bundlers, because browsers have no such module.
    ;({ readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ 'node:fs/promises'))
  } catch (cause) {
    throw new Error('There are no files here: pass bytes or a Blob as the content of an attachment.', { cause })
  }
  return readFile(path)
}

/** The email as the API takes it. */
async function toEmailRequest({ react, attachments, ...email }: EmailInput): Promise<SendEmailRequest> {
  return {
    ...email,
    ...(react !== undefined && (await renderBodies(react, email))),
    ...(attachments && { attachments: await Promise.all(attachments.map(encodeAttachment)) }),
  }
}

async function encodeAttachment({ content, ...attachment }: AttachmentInput): Promise<SendEmailRequestAttachment> {
  const type = content instanceof Blob ? content.type : ''
  return {
    ...(type !== '' && { content_type: type }),
    ...attachment,
    content: typeof content === 'string' ? content : encodeBase64(await collectBytes(content)),
  }
}

async function collectBytes(content: Exclude<AttachmentContent, string>): Promise<Uint8Array> {
  if (content instanceof Uint8Array) return content
  const isWebBody = content instanceof ArrayBuffer || content instanceof Blob || content instanceof ReadableStream
  return isWebBody ? new Uint8Array(await new Response(content).arrayBuffer()) : joinChunks(content)
}

/** The octets of a stream of Node. */
async function joinChunks(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = []
  for await (const chunk of chunks) parts.push(new Uint8Array(chunk))
  return new Uint8Array(await new Blob(parts).arrayBuffer())
}

/** Octets that are encoded in one step, because a call takes only so many arguments; a multiple of 3. */
const STEP = 3 * 8192

function encodeBase64(bytes: Uint8Array): string {
  const parts: string[] = []
  for (let start = 0; start < bytes.length; start += STEP)
    parts.push(btoa(String.fromCharCode(...bytes.subarray(start, start + STEP))))
  return parts.join('')
}

async function renderBodies(element: unknown, { html_body: html, text_body: text }: SendEmailRequest) {
  if (typeof html === 'string') throw new TypeError('An email has either `react` or `html_body`.')
  const render = await loadRender()
  return {
    html_body: await render(element),
    ...(typeof text !== 'string' && { text_body: await render(element, { plainText: true }) }),
  }
}

async function loadRender() {
  try {
    const { render } = await import('@react-email/render')
    return render as (element: unknown, options?: { readonly plainText?: boolean }) => Promise<string>
  } catch (cause) {
    throw new Error('`react` needs a package that is not installed: npm install @react-email/render', { cause })
  }
}

/** Headers of a request: `Headers`, or those of Node's `request.headers`. */
export type WebhookHeaders =
  | { readonly get: (name: string) => string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

export interface VerifyOptions {
  /** How far the time of the request may be from now, either way; default: 300. */
  readonly toleranceSeconds?: number | undefined
  /** Default: the current time. */
  readonly now?: Date | undefined
}

/** Why a request is not an event of the service. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError'
  /** Respond with a 500 to `invalid_secret`, which is a mistake of the receiver, and with a 400 to the others. */
  readonly code: 'invalid_payload' | 'invalid_secret' | 'missing_header' | 'outside_tolerance' | 'wrong_signature'

  constructor(code: WebhookError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/**
 * Returns the event of a webhook request; `switch (event.event)` knows its fields.
 * @param body exactly as it was received: text or bytes, not parsed JSON
 * @param secrets `whsec_…`; several when one is being replaced, or when several webhooks have the same URL
 * @throws WebhookError if the request was not signed with one of the secrets, or not now
 */
export async function verifyWebhook(
  body: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  { toleranceSeconds = 300, now = new Date() }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const id = requireHeader(headers, 'webhook-id')
  const timestamp = requireHeader(headers, 'webhook-timestamp')
  const signatures = requireHeader(headers, 'webhook-signature')
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN
  const awaySeconds = Math.abs(now.getTime() / 1000 - seconds)
  if (!(awaySeconds <= toleranceSeconds))
    throw new WebhookError(
      'outside_tolerance',
      `webhook-timestamp is ${timestamp}, which is not within ${toleranceSeconds} seconds of the time here.`,
    )
  const text = typeof body === 'string' ? body : new TextDecoder('utf-8', { ignoreBOM: true }).decode(body)
  if (!(await isSigned(`${id}.${timestamp}.${text}`, signatures, secrets)))
    throw new WebhookError(
      'wrong_signature',
      'No signature of this request was made with this secret: is it that of this webhook, and the body as received?',
    )
  return parseEvent(text)
}

function requireHeader(headers: WebhookHeaders, name: string): string {
  // Proxies and receivers that were built for Svix keep only its names.
  const value = readHeader(headers, name) ?? readHeader(headers, name.replace('webhook', 'svix'))
  if (!value) throw new WebhookError('missing_header', `The request has no header ${name}.`)
  return value
}

function readHeader(headers: WebhookHeaders, name: string): string | undefined {
  if (typeof headers.get === 'function') return headers.get(name) ?? undefined
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? []
  return typeof value === 'object' ? value[0] : value
}

/** Whether one of the signatures, `v1,<base64>` separated by spaces, was made with one of the secrets. */
async function isSigned(signed: string, signatures: string, secrets: string | readonly string[]): Promise<boolean> {
  const content = new TextEncoder().encode(signed)
  const given = signatures.split(' ').flatMap((signature) => {
    const bytes = signature.startsWith('v1,') ? decodeBase64(signature.slice(3)) : undefined
    return bytes ?? []
  })
  const keys = await Promise.all([secrets].flat().map(importSecret))
  if (keys.length === 0) throw new WebhookError('invalid_secret', 'There is no secret.')
  for (const key of keys)
    for (const signature of given) if (await crypto.subtle.verify('HMAC', key, signature, content)) return true
  return false
}

async function importSecret(secret: string): Promise<CryptoKey> {
  // Programs without types may pass a variable that is not set.
  const bytes = decodeBase64((secret ?? '').replace(/^whsec_/, ''))
  if (!bytes?.length) throw new WebhookError('invalid_secret', 'A secret is not whsec_ and base64.')
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

function parseEvent(text: string): WebhookEvent {
  let payload: unknown
  try {
    payload = JSON.parse(text)
  } catch (cause) {
    throw new WebhookError('invalid_payload', 'The body is not JSON.', { cause })
  }
  if (typeof (payload as { readonly event?: unknown } | null)?.event === 'string') return payload as WebhookEvent
  throw new WebhookError('invalid_payload', 'The body has no `event`: the format of this webhook is not `tassis`.')
}
