/** @module Deletes a domain after its name was typed. */
import { Button, Group, List, Modal, Stack, Text, TextInput, Title } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { useDeleteDomain } from '../../api/domains.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/action.tsx'
import { FormError } from '../../parts/form-error.tsx'

export function DeleteDomain({ domain }: { readonly domain: DomainWire }) {
  const [isOpen, modal] = useDisclosure(false)
  const reason = useAllowed('developer')
  return (
    <Stack component="section" aria-labelledby="delete" gap="sm" align="flex-start">
      <Title order={2} size="h3" id="delete">
        Delete
      </Title>
      <Text maw={720}>
        Nothing more can be sent from {domain.domain} or received for it. Scheduled mail is cancelled; mail already
        queued is still signed and sent.
      </Text>
      <ActionButton reason={reason} onClick={modal.open} variant="default">
        Delete this domain
      </ActionButton>
      <Modal
        opened={isOpen}
        onClose={modal.close}
        title={`Delete ${domain.domain}?`}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <DeleteForm domain={domain} onClose={modal.close} />
      </Modal>
    </Stack>
  )
}

function DeleteForm({ domain, onClose }: { readonly domain: DomainWire; onClose(): void }) {
  const [typed, setTyped] = useState('')
  const [isWrong, setIsWrong] = useState(false)
  const remove = useDeleteDomain(domain.id)
  const navigate = useNavigate()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const isSame = typed.trim().toLowerCase() === domain.domain
    setIsWrong(!isSame)
    if (isSame) remove.mutate(undefined, { onSuccess: () => navigate({ to: '/domains' }) })
  }
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <List size="sm">
          <List.Item>Scheduled mail of the domain is cancelled.</List.Item>
          <List.Item>Queued mail is still signed and sent. Leave the DNS records until it has ended.</List.Item>
          <List.Item>If you add the domain again, it gets a new DKIM key.</List.Item>
        </List>
        <TextInput
          label={`Type ${domain.domain} to confirm`}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          error={isWrong && 'This is not the name of the domain.'}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          data-autofocus
        />
        <FormError error={remove.error} />
        <Group>
          <Button type="submit" color="red" loading={remove.isPending}>
            Delete
          </Button>
          <Button variant="default" onClick={onClose}>
            Keep it
          </Button>
        </Group>
      </Stack>
    </form>
  )
}
