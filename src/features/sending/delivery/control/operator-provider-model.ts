/** @module Wire shapes of /v1/operator/providers and /v1/operator/alerts. */
import { type Static, Type } from '@sinclair/typebox'
import {
  Count,
  Nullable,
  NullablePart,
  PAGE_FIELDS,
  Part,
  StringEnum,
  Text,
  TextOrNull,
  Timestamp,
} from '#platform/http/schemas.ts'

export const ProviderQuery = Type.Object({
  ...PAGE_FIELDS,
  used: Type.Optional(StringEnum(['true', 'false'], { description: 'true: only those to which something was sent.' })),
})

const traffic = (description: string) =>
  Part(description, {
    attempted: Count('Attempts.'),
    accepted: Count('Messages that it accepted.'),
    deferred: Count('Attempts that will be made again.'),
    refused: Count('Messages that it rejected permanently.'),
  })
export const ServerProvider = Type.Object({
  provider: Text('Name in the list of providers, or the mail hosts of a site without an entry.'),
  source: TextOrNull('Our outgoing address; null: the system chooses it, or nothing was sent yet.'),
  is_listed: Type.Boolean({ description: 'Whether it has an entry in the list of providers.' }),
  limits: Part('The limits of the provider.', {
    connections: Count('Connections at the same time.'),
    messages_per_connection: Count('Messages over one connection.'),
    connection_age_seconds: Count('How long a connection is used at most.'),
    idle_seconds: Count('How long a connection waits for the next message.'),
    per_second: Count('Messages in any second; 0: no limit.'),
    per_minute: Count('Messages in any minute; 0: no limit.'),
    tls: Text('opportunistic or required.'),
    route: Text('direct or smarthost.'),
    figures_from: Text('Where the figures are published.'),
  }),
  rate_factor: Type.Number({
    description: 'Fraction of the limits in use; replies lower it, accepted mail raises it.',
  }),
  rate_per_minute: Nullable(Type.Number(), { description: 'Messages a minute in use; null: no limit.' }),
  suspension: NullablePart('Why nothing is sent; null: not suspended.', {
    rule: Text('Rule of the reply that began it.'),
    reason: Text('The reply.'),
    since: Timestamp({ description: 'When it began.' }),
    until: Timestamp({ description: 'When the next message is tried.' }),
    failures: Count('Rejections in a row.'),
  }),
  warm_up: NullablePart('The daily budget while our address is new to the provider; null: it is not.', {
    budget: Count('Messages that the provider gets on this day (UTC).'),
    used: Count('Messages that it has had, or that are in delivery.'),
    next_day_at: Timestamp({ description: 'When the next day begins.' }),
  }),
  in_delivery: Count('Messages in delivery.'),
  waiting_lanes: Count('Destinations whose mail waits for the provider; each account has its own.'),
  last_hour: traffic('The last hour, since the start of the service.'),
  last_day: traffic('The last day, since the start of the service.'),
})
export type ServerProvider = Static<typeof ServerProvider>
export const ProviderResumeResult = Type.Object({
  provider: Text('Name of the provider.'),
  resumed: Count('Suspensions and lowered rates that were lifted.'),
})

export const DeliveryAlert = Type.Object({
  provider: Text('Name in the list of providers, or the mail hosts of a site without an entry.'),
  source: TextOrNull('Our outgoing address; null: it is not known.'),
  rule: Text('Rule of the reply.'),
  category: Text('reputation or authentication, or another category of bounces.'),
  reply: Text('The last reply.'),
  count: Count('Attempts that ended with such a reply.'),
  first_at: Timestamp({ description: 'When the first one came.' }),
  last_at: Timestamp({ description: 'When the last one came.' }),
  advice: Text('What to do.'),
})
export type DeliveryAlert = Static<typeof DeliveryAlert>
