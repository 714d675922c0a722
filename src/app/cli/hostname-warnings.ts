/** @module What is wrong with the host name that receivers and DNS records are told. */
import type { Config } from '#platform/config.ts'

/** At most one sentence: nobody else finds a host whose name has no dot, so records with it cannot be verified. */
export const findHostnameWarnings = ({ hostname }: Pick<Config, 'hostname'>): readonly string[] =>
  hostname.includes('.')
    ? []
    : [
        `This host calls itself "${hostname}", which is no full name: DNS records with it (a:${hostname}, MX ${hostname}) cannot work. Set TASSIS_HOSTNAME to a name that leads here, such as mail.example.com.`,
      ]
