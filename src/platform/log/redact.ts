/** @module Shortens mail addresses in lines of the log. */

const ADDRESS = /([\p{L}\p{N}!#$%&'*+/=?^_`{|}~.-]{1,64})@([\p{L}\p{N}.-]{1,253})/gu

/** Redacts each local part to its first character: `a***@example.com`. */
export const redactAddresses = (text: string): string =>
  text.includes('@')
    ? text.replace(ADDRESS, (_, local: string, domain: string) => `${local.slice(0, 1)}***@${domain}`)
    : text
