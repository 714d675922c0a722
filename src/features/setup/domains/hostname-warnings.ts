/** @module Warns about a host name that does not work in SMTP greetings and DNS records. */
import type { Config } from '#platform/settings/config.ts'

/** Returns at most one sentence: a name without a dot cannot be found in DNS, so records with it cannot be verified. */
export const findHostnameWarnings = ({ hostname }: Pick<Config, 'hostname'>): readonly string[] =>
  hostname.includes('.')
    ? []
    : [
        `The host name "${hostname}" is not fully qualified: DNS records with it (a:${hostname}, MX ${hostname}) cannot work. Set TASSIS_HOSTNAME to a name that resolves to this host, such as mail.example.com.`,
      ]
