/** @module Deletes a domain after its name was typed. */
import { List, Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { useDeleteDomain } from '../../api/domains.ts'
import { useAllowed } from '../../api/session.tsx'
import { DeleteButton } from '../../parts/dialog.tsx'
import { Section } from '../../parts/section.tsx'

export function DeleteDomain({ domain }: { readonly domain: DomainWire }) {
  const reason = useAllowed('developer')
  const remove = useDeleteDomain(domain.id)
  const navigate = useNavigate()
  return (
    <Section title="Delete" size="h3" align="flex-start">
      <Text maw={720}>
        Nothing more can be sent from {domain.domain} or received for it. Scheduled mail is cancelled; mail already
        queued is still signed and sent.
      </Text>
      <DeleteButton
        label="Delete this domain"
        reason={reason}
        title={`Delete ${domain.domain}?`}
        confirm="Delete"
        work={remove}
        typed={domain.domain}
        onConfirm={() => remove.mutate(undefined, { onSuccess: () => navigate({ to: '/domains' }) })}
      >
        <List size="sm">
          <List.Item>Scheduled mail of the domain is cancelled.</List.Item>
          <List.Item>Queued mail is still signed and sent. Leave the DNS records until it has ended.</List.Item>
          <List.Item>If you add the domain again, it gets a new DKIM key.</List.Item>
        </List>
      </DeleteButton>
    </Section>
  )
}
