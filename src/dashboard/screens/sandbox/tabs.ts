/** The tabs of a captured email, as in its URL. */
export const CAPTURED_TABS = ['html', 'text', 'headers', 'source', 'attachments', 'links'] as const
export type CapturedTab = (typeof CAPTURED_TABS)[number]
