/** States of a delivery to the webhook of a route, by which its list can be filtered. */
export const DELIVERY_STATES = ['pending', 'delivered', 'undeliverable'] as const
