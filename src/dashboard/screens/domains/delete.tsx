/** @module Deletes a domain after its name was typed. */
import { List, Text } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useNavigate } from '@tanstack/react-router'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { useDeleteDomain } from '../../api/domains.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/action.tsx'
import { DialogFrame } from '../../parts/dialog.tsx'
import { Section } from '../../parts/section.tsx'

export function DeleteDomain({ domain }: { readonly domain: DomainWire }) {
  const [isOpen, modal] = useDisclosure(false)
  const reason = useAllowed('developer')
  return (
    <Section title="Delete" size="h3" align="flex-start">
      <Text maw={720}>
        Nothing more can be sent from {domain.domain} or received for it. Scheduled mail is cancelled; mail already
        queued is still signed and sent.
      </Text>
      <ActionButton reason={reason} onClick={modal.open} variant="default">
        Delete this domain
      </ActionButton>
      {isOpen && <DeleteDialog domain={domain} onClose={modal.close} />}
    </Section>
  )
}

function DeleteDialog({ domain, onClose }: { readonly domain: DomainWire; onClose(): void }) {
  const remove = useDeleteDomain(domain.id)
  const navigate = useNavigate()
  return (
    <DialogFrame
      title={`Delete ${domain.domain}?`}
      confirm="Delete"
      isDangerous
      work={remove}
      typed={domain.domain}
      onConfirm={() => remove.mutate(undefined, { onSuccess: () => navigate({ to: '/domains' }) })}
      onClose={onClose}
    >
      <List size="sm">
        <List.Item>Scheduled mail of the domain is cancelled.</List.Item>
        <List.Item>Queued mail is still signed and sent. Leave the DNS records until it has ended.</List.Item>
        <List.Item>If you add the domain again, it gets a new DKIM key.</List.Item>
      </List>
    </DialogFrame>
  )
}
