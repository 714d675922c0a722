/**
 * @module The npm package `tassis`: a method for each route of the API, attachments from files and streams, bodies from
 * React, and the check of webhooks.
 */
import { API, type Api } from './api.ts'
import { type ClientOptions, createClient, type RequestOptions } from './client.ts'
import { type EmailInput, toEmailRequest } from './content.ts'

export type * from './api.ts'
export { type Pages, type Query, type RawBody, type RequestOptions, TassisError } from './client.ts'
export { type AttachmentContent, type AttachmentInput, attachFile, type EmailInput } from './content.ts'
export { type VerifyOptions, verifyWebhook, WebhookError, type WebhookHeaders } from './webhook.ts'

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
