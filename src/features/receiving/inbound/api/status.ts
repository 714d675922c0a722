/**
 * @module The status of an inbound email.
 *
 * received → delivered (the webhook of its route accepted it)
 * no_route, failed (unparseable): final
 */
import { codesOf } from '#platform/db/codes.ts'

/** The position is the stored code: append only. */
export const INBOUND_STATUSES = ['received', 'delivered', 'failed', 'no_route'] as const
export type InboundStatus = (typeof INBOUND_STATUSES)[number]

const CODES = codesOf<InboundStatus>('inbound status', INBOUND_STATUSES)
/** The stored code of a status. */
export const inboundStatusCode = CODES.codeOf
/** The status of a stored code; throws for an unknown code. */
export const inboundStatusName = CODES.nameOf
