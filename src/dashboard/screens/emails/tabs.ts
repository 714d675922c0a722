/** @module The tabs with the content of an email, as the URL names them. */

export const EMAIL_TABS = ['html', 'text', 'headers', 'source', 'links'] as const
export type EmailTab = (typeof EMAIL_TABS)[number]
