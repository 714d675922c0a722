/** Tabs of a received message, in order. */
export const INBOUND_TABS = ['html', 'text', 'headers', 'source'] as const
export type InboundTab = (typeof INBOUND_TABS)[number]
