/** @module The DNS providers whose zones this service can change, and what publishing by them takes and returns. */
import { type Static, Type } from '@sinclair/typebox'
import * as S from '#platform/http/schemas.ts'
import type { DnsProviderEntry } from './dns-api.ts'
import { HTTP_PROVIDERS } from './http/providers.ts'
import { RFC2136 } from './rfc2136.ts'

export const PROVIDERS: readonly DnsProviderEntry[] = [...HTTP_PROVIDERS, RFC2136]

export const PublishBody = S.StrictObject({
  provider: Type.Optional(
    S.StringEnum(
      PROVIDERS.map(({ name }) => name),
      { description: 'Left out: the one whose credentials are kept.' },
    ),
  ),
  credentials: Type.Optional(
    Type.Record(Type.String({ maxLength: 64 }), Type.String({ maxLength: 8192 }), {
      maxProperties: 10,
      description: 'Values by name of field, as `GET` lists them. Left out: those that are kept.',
    }),
  ),
  dry_run: Type.Optional(
    Type.Boolean({ description: 'Plans only: writes nothing, neither at the provider nor here. Default false.' }),
  ),
  keep: Type.Optional(
    Type.Boolean({
      description: 'Whether to keep the credentials, sealed, for later changes of this domain. Default true.',
    }),
  ),
})
export type PublishBody = Static<typeof PublishBody>

const Values = (description: string) => Type.Array(Type.String(), { description })

export const PublishedRecord = Type.Object({
  key: S.Text('As in `dns_records` of the domain.'),
  type: S.StringEnum(['TXT', 'MX', 'CNAME'], { description: 'Type of the record.' }),
  name: S.Text('Full name, without a trailing dot.'),
  action: S.StringEnum(['create', 'change', 'leave', 'conflict'], {
    description: '`conflict`: it is for you to decide, as `reason` says; never written.',
  }),
  before: Values('All values at the name when it was read.'),
  after: Values('All values that are to be there; those of others stay.'),
  reason: S.Text('Why this is done, or not.'),
  state: S.StringEnum(['planned', 'published', 'failed', 'unchanged'], {
    description: '`published`: the provider has it.',
  }),
  error: S.TextOrNull('Why it failed; null: it did not.'),
})
export type PublishedRecord = Static<typeof PublishedRecord>

export const Published = Type.Object({
  provider: S.Text('The DNS provider.'),
  zone: S.Text('The zone that has the records.'),
  dry_run: Type.Boolean({ description: 'Whether nothing was written.' }),
  is_kept: Type.Boolean({ description: 'Whether the credentials are kept.' }),
  records: Type.Array(PublishedRecord, { description: 'In the order in which they are written.' }),
  summary: S.Text('What was done, and what the name servers of the zone show.'),
})
export type Published = Static<typeof Published>
