/** @module Wire shapes of inbound routes and the deliveries of their webhooks. */
import { type Static, Type } from '@sinclair/typebox'
import { MATCH_TYPES, type MatchType } from '#features/receiving/route-rules/rows.ts'
import type { Delivery } from '#features/webhooks/webhooks/history/history.ts'
import {
  DELIVERY_FIELDS,
  DeliveryQuery,
  MAX_REPLAYED,
  RANGE_FIELDS,
  toDeliveryFields,
} from '#features/webhooks/webhooks/history/model.ts'
import type { Webhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import {
  type InboundRoute,
  MAX_PATTERN_LENGTH,
  MAX_TARGETS,
  REJECTION_REASONS,
  type RouteChange,
  type RouteInput,
} from './inbound-routes.ts'

const MAX_PRIORITY = 1_000_000
const DEFAULT_PRIORITY = 0

export const RouteRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the route.' }),
  account_id: S.Uuid({ description: 'Account it belongs to.' }),
  domain_id: S.Uuid({ description: 'Domain of its mail.' }),
  pattern: S.Text('Pattern of its addresses, as provided; empty for a catch_all without one.'),
  match_type: S.StringEnum(MATCH_TYPES, { description: 'How the pattern is compared.' }),
  priority: S.Count('Routes with a lower number are tried first.'),
  webhook_url: S.TextOrNull('Where `email.inbound` is posted; null: mail is only stored.'),
  is_active: Type.Boolean({ description: 'Whether the route gets mail.' }),
  ...S.extraFields({
    forward_to: Type.Array(Type.String(), { description: 'Addresses that its mail is forwarded to.' }),
    failure_count: S.Count('Consecutive failed attempts at webhook_url; the tenth deactivates the webhook.'),
    last_failure_at: S.TimeOrNull('When the last failed attempt was made.'),
    last_failure_reason: S.TextOrNull(
      'Why the last failed attempt failed, or that failures deactivated the webhook; any PUT of the route reactivates it.',
    ),
    last_success_at: S.TimeOrNull('When the last attempt with a 2xx response was made.'),
  }),
  created_at: S.Timestamp({ description: 'When it was created.' }),
  updated_at: S.Timestamp({ description: 'When it was last changed.' }),
})

/** Another spelling of catch_all. */
const CATCH_ALL_ALIAS = 'catchall'

const DomainId = S.Uuid({ description: 'Id of a domain of the account.' })
const Pattern = Type.String({
  maxLength: MAX_PATTERN_LENGTH,
  description:
    'Local part (`support`), `support@`, or the whole address. `prefix` matches the start of the local part; `catch_all` ignores the pattern. Case does not matter, and `support` also matches `support+anything`.',
})
const MatchTypeField = S.StringEnum([...MATCH_TYPES, CATCH_ALL_ALIAS], {
  description:
    'How the pattern is compared. At the same priority exact comes before prefix, prefix before catch_all. `catchall` is another spelling of `catch_all`.',
  errorMessage: `one of ${MATCH_TYPES.join(', ')} (also spelled ${CATCH_ALL_ALIAS})`,
})
const Priority = Type.Integer({
  minimum: -MAX_PRIORITY,
  maximum: MAX_PRIORITY,
  description: `Routes with a lower number are tried first; default: ${DEFAULT_PRIORITY}.`,
})
const WebhookUrl = S.OptionalNullable(Type.String(), {
  description:
    'https URL without credentials that resolves to a public address; it gets `email.inbound` for the mail of this route.',
})
const Targets = Type.Array(Type.String({ maxLength: MAX_PATTERN_LENGTH }), { maxItems: MAX_TARGETS })
const ForwardTo = S.OptionalNullable(Targets, {
  description:
    'Addresses that its mail is sent on to: at verified domains of the account, or of users of the team. Null: none.',
})
const IsActive = Type.Boolean({ description: 'Whether the route gets mail; default: true.' })

const OPTIONAL_FIELDS = {
  pattern: Type.Optional(Pattern),
  priority: Type.Optional(Priority),
  webhook_url: WebhookUrl,
  forward_to: ForwardTo,
  is_active: Type.Optional(IsActive),
}

export const NewRoute = S.StrictObject(
  { domain_id: DomainId, match_type: MatchTypeField, ...OPTIONAL_FIELDS },
  {
    examples: [
      {
        domain_id: '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24',
        pattern: 'support',
        match_type: 'exact',
        webhook_url: 'https://example.com/inbound',
      },
    ],
  },
)

export const RouteChangeBody = S.StrictObject(
  { domain_id: Type.Optional(DomainId), match_type: Type.Optional(MatchTypeField), ...OPTIONAL_FIELDS },
  {
    description: 'At least one field. Omitted fields keep their value; `webhook_url` null stops posting.',
    examples: [{ webhook_url: 'https://example.com/inbound', is_active: true }],
  },
)

const toMatchType = (given: MatchType | typeof CATCH_ALL_ALIAS): MatchType =>
  given === CATCH_ALL_ALIAS ? 'catch_all' : given

export const toRouteInput = (body: Static<typeof NewRoute>): RouteInput => ({
  domainId: body.domain_id,
  pattern: body.pattern ?? '',
  matchType: toMatchType(body.match_type),
  priority: body.priority ?? DEFAULT_PRIORITY,
  webhookUrl: body.webhook_url ?? null,
  forwardTo: body.forward_to ?? [],
  isActive: body.is_active ?? true,
})

export const toRouteChange = (body: Static<typeof RouteChangeBody>): RouteChange => ({
  domainId: body.domain_id,
  pattern: body.pattern,
  matchType: body.match_type && toMatchType(body.match_type),
  priority: body.priority,
  webhookUrl: body.webhook_url,
  forwardTo: body.forward_to === null ? [] : body.forward_to,
  isActive: body.is_active,
})

export const toRouteWire = (route: InboundRoute, account_id: string) =>
  toWire(RouteRecord, route, { account_id, domain_id: formatUuid(route.domainUuid), pattern: route.givenPattern })

export const RouteDeliveryQuery = Type.Object({
  ...S.PAGE_FIELDS,
  status: DeliveryQuery.properties.status,
})

export const RouteDelivery = Type.Object({
  id: S.Uuid({ description: 'Id of the delivery.' }),
  route_id: S.Uuid({ description: 'Route of the delivery.' }),
  inbound_email_id: S.UuidOrNull('Inbound email that the delivery posts; null when its event was deleted.'),
  ...DELIVERY_FIELDS,
})
export type RouteDelivery = Static<typeof RouteDelivery>

export const toRouteDeliveryWire = (delivery: Delivery, webhook: Webhook, keys: KeyRing): RouteDelivery => ({
  id: formatUuid(delivery.uuid),
  // The webhook of a route has the id of its route.
  route_id: formatUuid(webhook.uuid),
  inbound_email_id: delivery.inboundEmailId,
  ...toDeliveryFields(delivery, webhook, keys),
})

export const RouteReplayRange = S.StrictObject(RANGE_FIELDS, {
  description: `Either from_seq or from is required. One call replays at most ${MAX_REPLAYED} messages.`,
  examples: [{ from_seq: 1200, to_seq: 1300 }],
})

export const MatchQuery = Type.Object({
  address: Type.String({ maxLength: MAX_PATTERN_LENGTH, description: 'Address to test, such as support@example.com.' }),
})

export const AddressMatchRecord = Type.Object({
  address: S.Text('The address, with its domain in A-labels.'),
  is_accepted: Type.Boolean({ description: 'Whether mail to this address is accepted now.' }),
  rejection: S.Nullable(S.StringEnum(REJECTION_REASONS), {
    description:
      'Why it is not: `unknown_domain`: the account has no such domain; `domain_not_verified`; `inbound_disabled`: the domain does not receive; `server_not_receiving`: `TASSIS_INBOUND_ADDR` is not set. Null: it is accepted.',
  }),
  domain_id: S.UuidOrNull('Domain of the address; null: the account has none with this name.'),
  mailbox_id: S.UuidOrNull('Agent mailbox that gets the mail; null: none.'),
  route_id: S.UuidOrNull(
    'Active route that gets the mail, even if the domain does not receive yet; null: a mailbox gets it, or no route matches.',
  ),
})
