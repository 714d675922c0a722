/** @module A draft of a broadcast, in steps: list, content, test email, send. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { Newsletter } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData } from '../api/data.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { ActionButton, DeleteButton, FormError } from '../parts/form.tsx'
import { SmallLink, TextLink } from '../parts/links.tsx'
import { RecordPage, Section } from '../parts/page.tsx'
import { ChooseList } from './broadcasts/choose-list.tsx'
import { ContentForm } from './broadcasts/content-form.tsx'
import { DraftPreview } from './broadcasts/preview.tsx'
import { useSaveDraft } from './broadcasts/queries.ts'
import { SendStep } from './broadcasts/send-step.tsx'
import { StepList } from './broadcasts/step-list.tsx'
import type { Step } from './broadcasts/steps.ts'

const route = getRouteApi('/broadcasts/drafts/$id')

/** Characters of the subject in the heading. */
const MAX_TITLE_LENGTH = 80

export default function BroadcastDraftScreen() {
  const { id } = route.useParams()
  const query = useData(read.newsletters.get(id))
  const { data } = query
  return (
    <RecordPage
      title={data ? `Draft: ${[...data.subject].slice(0, MAX_TITLE_LENGTH).join('')}` : 'Draft'}
      list="/broadcasts"
      listName="All broadcasts"
      query={query}
      missing="This account has no draft with this id. It may have been deleted, or belong to another account."
      onEscape={() => undefined}
    >
      {(draft) => (draft.status === 'draft' ? <DraftView key={draft.id} draft={draft} /> : <Sent draft={draft} />)}
    </RecordPage>
  )
}

const Sent = ({ draft }: { readonly draft: Newsletter }) => (
  <Stack align="flex-start">
    <Text>This is no draft any more: it was sent or scheduled.</Text>
    {draft.operation_id !== null && (
      <TextLink to="/broadcasts/$id" params={{ id: draft.operation_id }}>
        Show the broadcast
      </TextLink>
    )}
  </Stack>
)

function DraftView({ draft }: { readonly draft: Newsletter }) {
  const { step = 'content' } = route.useSearch()
  const navigate = route.useNavigate()
  const [contact, setContact] = useState('')
  const goTo = (next: Step) => void navigate({ search: { step: next } })
  return (
    <Stack gap="lg">
      <StepList current={step} draftId={draft.id} />
      {step === 'list' && <ListStep draft={draft} onDone={() => goTo('content')} />}
      {step === 'content' && (
        <>
          <ContentForm
            key={draft.updated_at}
            listId={draft.list_id}
            draft={draft}
            onSaved={(_, goesOn) => goesOn && goTo('test')}
          />
          <Section title="Preview">
            <DraftPreview draft={draft} contact={contact} onContact={setContact} />
          </Section>
        </>
      )}
      {step === 'test' && (
        <>
          <TestStep draft={draft} contact={contact} onDone={() => goTo('send')} />
          <Section title="Preview">
            <DraftPreview draft={draft} contact={contact} onContact={setContact} />
          </Section>
        </>
      )}
      {step === 'send' && <SendStep draft={draft} />}
      <Group>
        <DeleteButton
          label="Delete the draft"
          size="xs"
          title="Delete this draft?"
          confirm="Delete the draft"
          remove={() => api.newsletters.delete(draft.id)}
          refreshes={[['newsletters', 'list']]}
          onDeleted={() => navigate({ to: '/broadcasts' })}
        >
          <Text>Its text is lost. Test emails that were sent stay.</Text>
        </DeleteButton>
      </Group>
    </Stack>
  )
}

function ListStep({ draft, onDone }: { readonly draft: Newsletter; onDone(): void }) {
  const save = useSaveDraft(draft.id)
  const reason = useAllowed('developer')
  return (
    <ChooseList
      initial={draft.list_id}
      reason={reason}
      isBusy={save.isPending}
      error={save.error}
      onChosen={(id) => (id === draft.list_id ? onDone() : save.mutate({ list_id: id }, { onSuccess: onDone }))}
    />
  )
}

interface TestStepProps {
  readonly draft: Newsletter
  readonly contact: string
  onDone(): void
}

function TestStep({ draft, contact, onDone }: TestStepProps) {
  const { user } = useSession()
  const reason = useAllowed('developer')
  const send = useChange(() =>
    api.newsletters.sendTestEmail(draft.id, contact === '' ? {} : { contact_email: contact }),
  )
  // Stays when another one fails.
  const [sentId, setSentId] = useState<string>()
  return (
    <Stack align="flex-start" gap="sm">
      <Text>
        Sends the email below to your own address, {user.email}, with [Test] before its subject. Its link to unsubscribe
        leads nowhere.
      </Text>
      <Group>
        <ActionButton
          reason={reason}
          variant={sentId === undefined ? 'filled' : 'default'}
          loading={send.isPending}
          onClick={() => send.mutate(undefined, { onSuccess: ({ data }) => setSentId(data.id) })}
        >
          {sentId === undefined ? 'Send a test email' : 'Send another'}
        </ActionButton>
        <Button variant={sentId === undefined ? 'default' : 'filled'} onClick={onDone}>
          Continue
        </Button>
      </Group>
      <div role="status">
        {sentId !== undefined && (
          <Alert color="green">
            The test email is on its way.{' '}
            <SmallLink to="/emails/$id" params={{ id: sentId }} underline="always">
              See what happens to it
            </SmallLink>
          </Alert>
        )}
      </div>
      <FormError error={send.error} />
    </Stack>
  )
}
