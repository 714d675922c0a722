/** @module The records of DKIM keys that signed before a rotation: until when they must stay in DNS. */
import { Stack, Text, Title } from '@mantine/core'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { Time } from '../../parts/time.tsx'
import { listFormerKeys } from './state.ts'

export function FormerKeys({ domain }: { readonly domain: DomainWire }) {
  const former = listFormerKeys(domain, Date.now())
  if (former.length === 0) return null
  return (
    <Stack gap="xs" maw={860} component="section" aria-labelledby="former-keys">
      <Title order={3} size="h4" id="former-keys">
        Former DKIM keys
      </Title>
      <Text size="sm">
        Receivers may still check mail that these keys signed, so leave their records in DNS for seven days.
      </Text>
      <ul>
        {former.map(({ names, keepUntil, isRemovable }) => (
          <li key={keepUntil + names.join()}>
            {names.map((name, index) => (
              <span key={name}>
                {index > 0 && ' and '}
                <code>{name}</code>
              </span>
            ))}
            : {isRemovable ? 'may be removed since ' : 'keep until '}
            <Time iso={keepUntil} />
          </li>
        ))}
      </ul>
    </Stack>
  )
}
