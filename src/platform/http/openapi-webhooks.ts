/** @module The requests that the service sends to its users (webhooks) in the API description. */
import type { TSchema } from '@sinclair/typebox'
import { type Json, type JsonObject, keepJsonOnly } from './openapi-schemas.ts'

export interface WebhookDescription {
  /** Unique, such as `delivered` and `resend.email.delivered`. */
  readonly name: string
  readonly summary: string
  readonly description: string
  readonly tags: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  readonly body: TSchema
}

/** What the response of a receiver does. */
const RESPONSES: JsonObject = {
  '2XX': { description: 'Delivered. The body is not read.' },
  '3XX': { description: 'Not delivered: redirects are not followed. Repeated only in the formats of other providers.' },
  '4XX': { description: 'Not delivered. Repeated only in the formats of other providers.' },
  '5XX': { description: 'Repeated later, as when there is no response within 10 seconds.' },
}

export interface DescribedWebhook {
  readonly name: string
  /** The operation, which is a POST. */
  readonly operation: JsonObject
}

export const describeWebhooks = (requests: readonly WebhookDescription[]): DescribedWebhook[] =>
  requests.map(({ name, summary, description, tags, headers, body }) => ({
    name,
    operation: {
      operationId: `receive-${name}`.replace(/[-._](\w)/g, (_, letter: string) => letter.toUpperCase()),
      summary,
      description,
      tags,
      security: [],
      parameters: Object.entries(headers).map(([header, words]) => ({
        name: header,
        in: 'header',
        required: true,
        description: words,
        schema: { type: 'string' },
      })),
      requestBody: {
        required: true,
        content: keepJsonOnly({ 'application/json': { schema: JSON.parse(JSON.stringify(body)) as Json } }, false),
      },
      responses: RESPONSES,
    },
  }))
