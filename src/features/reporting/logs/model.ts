/** @module Wire form of the request log. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import { Count, Nullable, StringEnum, Text, TextOrNull, Timestamp, UuidOrNull } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import type { StoredLogEntry } from './read.ts'
import { kinds, REQUEST_KINDS, toLogTime } from './request-log.ts'

export const RequestLogRecord = Type.Object({
  id: Text('Id of the entry.'),
  kind: StringEnum(REQUEST_KINDS, {
    description: 'The interface: `api` is /v1, `smtp` submission, `mcp` what a tool requested, others are drop-ins.',
  }),
  method: Text('HTTP method; for SMTP the command: AUTH for a failed login, DATA for a message.'),
  path: TextOrNull('Path without the query; null for SMTP.'),
  status: Count('HTTP status, or code of the SMTP reply.'),
  error_code: TextOrNull('Code of the error; null if there was none.'),
  error_message: TextOrNull('Sentence of the error; with problems in several fields, each of them.'),
  duration_ms: Count('Time until the response, in milliseconds.'),
  actor_type: StringEnum(['api_key', 'user'], { description: 'api_key or user.' }),
  actor_id: Text('Id of the API key or user.'),
  actor_name: TextOrNull('Name of the API key or user; null if it exists no more.'),
  ip_address: TextOrNull('Address of the client.'),
  user_agent: TextOrNull('User-Agent of the client; for SMTP the name in EHLO.'),
  request_id: TextOrNull('The X-Request-Id of the response; null for SMTP.'),
  email_id: UuidOrNull('Id of the email that the request created or changed; of several, the first.'),
  body: Nullable(Type.Unknown(), {
    description:
      'Of a refused request: the shape of its body with short values of fields such as to, from and template_id; never contents, data of templates or secrets.',
  }),
  created_at: Timestamp({ description: 'When the request ended.' }),
})
export type RequestLogRecord = Static<typeof RequestLogRecord>

export const toRequestLogWire = (entry: StoredLogEntry): RequestLogRecord =>
  toWire(RequestLogRecord, entry, {
    id: String(entry.id),
    kind: kinds.nameOf(entry.kind),
    actor_type: entry.isKey === 1 ? 'api_key' : 'user',
    body: entry.body === null ? null : JSON.parse(entry.body),
    created_at: isoTime(toLogTime(entry.id)),
  })
