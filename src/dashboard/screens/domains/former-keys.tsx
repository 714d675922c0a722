/** @module The records of DKIM keys that signed before a rotation: until when they must stay in DNS. */
import { Text } from '@mantine/core'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { Section } from '../../parts/section.tsx'
import { Time } from '../../parts/time.tsx'
import { listFormerKeys } from './state.ts'

export function FormerKeys({ domain }: { readonly domain: DomainWire }) {
  const former = listFormerKeys(domain, Date.now())
  if (former.length === 0) return null
  return (
    <Section title="Former DKIM keys" order={3} gap="xs" maw={860}>
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
    </Section>
  )
}
