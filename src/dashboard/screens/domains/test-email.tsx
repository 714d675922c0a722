/** @module Sends a test email from a domain to the user's own address. */
import { Anchor, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { useSendTestEmail } from '../../api/domains.ts'
import { useAllowed, useSession } from '../../api/session.tsx'
import { ActionButton } from '../../parts/action.tsx'
import { FormError } from '../../parts/form-error.tsx'
import { Section } from '../../parts/section.tsx'

export function TestEmail({ domain }: { readonly domain: DomainWire }) {
  const { user } = useSession()
  const reason = useAllowed('developer')
  const send = useSendTestEmail(domain.id)
  // Stays when another one fails.
  const [sentId, setSentId] = useState<string>()
  return (
    <Section title="Test email" size="h3" align="flex-start">
      <Text>
        Sends a short email from {domain.domain} to your own address, {user.email}.
      </Text>
      <ActionButton
        reason={reason}
        loading={send.isPending}
        onClick={() => send.mutate(undefined, { onSuccess: ({ id }) => setSentId(id) })}
        variant={sentId === undefined ? 'filled' : 'default'}
      >
        {sentId === undefined ? 'Send a test email' : 'Send another'}
      </ActionButton>
      <div role="status">
        {sentId !== undefined && (
          <Text>
            The test email is on its way.{' '}
            <Anchor component={Link} to={`/emails/${sentId}`} underline="always">
              See what happens to it
            </Anchor>
          </Text>
        )}
      </div>
      <FormError error={send.error} />
    </Section>
  )
}
