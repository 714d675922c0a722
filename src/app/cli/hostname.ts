/** @module What is wrong with the host name that receivers and DNS records are told. */
import type { Config } from '#platform/config.ts'

/** At most one sentence: nobody else finds a host whose name has no dot, so what is sent directly cannot be verified. */
export const hostnameWarnings = ({ delivery, hostname }: Config): readonly string[] =>
  delivery !== 'direct' || hostname.includes('.')
    ? []
    : [
        `This host calls itself "${hostname}", which is no full name: DNS records with it (a:${hostname}, MX ${hostname}) cannot work. Set TASSIS_HOSTNAME to a name that leads here, such as mail.example.com.`,
      ]
