/** @module A draft of a broadcast, in steps: list, content, test email, send. */
import { Alert, Anchor, Button, Group, Stack, Text } from '@mantine/core'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { NewsletterRecord } from '#features/sending/newsletters/model.ts'
import { useDeleteDraft, useDraft, useSaveDraft, useSendTest } from '../api/broadcasts.ts'
import { ApiError } from '../api/client.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { ActionButton, DialogFrame, FormError } from '../parts/form.tsx'
import { SmallLink } from '../parts/links.tsx'
import { Page, QueryView, Section } from '../parts/page.tsx'
import { ChooseList } from './broadcasts/choose-list.tsx'
import { ContentForm } from './broadcasts/content-form.tsx'
import { DraftPreview } from './broadcasts/preview.tsx'
import { SendStep } from './broadcasts/send-step.tsx'
import { StepList } from './broadcasts/step-list.tsx'
import type { Step } from './broadcasts/steps.ts'

const route = getRouteApi('/broadcasts/drafts/$id')

/** Characters of the subject in the heading. */
const MAX_TITLE_LENGTH = 80

export default function BroadcastDraftScreen() {
  const { id } = route.useParams()
  const query = useDraft(id)
  const isMissing = query.error instanceof ApiError && query.error.status === 404 && !query.data
  const { data } = query
  return (
    <Page title={data ? `Draft: ${[...data.subject].slice(0, MAX_TITLE_LENGTH).join('')}` : 'Draft'}>
      <SmallLink to="/broadcasts">All broadcasts</SmallLink>
      {isMissing ? (
        <Text>This account has no draft with this id. It may have been deleted, or belong to another account.</Text>
      ) : (
        <QueryView query={query}>
          {(draft) => (draft.status === 'draft' ? <DraftView key={draft.id} draft={draft} /> : <Sent draft={draft} />)}
        </QueryView>
      )}
    </Page>
  )
}

const Sent = ({ draft }: { readonly draft: NewsletterRecord }) => (
  <Stack align="flex-start">
    <Text>This is no draft any more: it was sent or scheduled.</Text>
    {draft.operation_id !== null && (
      <Anchor component={Link} to="/broadcasts/$id" params={{ id: draft.operation_id } as never}>
        Show the broadcast
      </Anchor>
    )}
  </Stack>
)

function DraftView({ draft }: { readonly draft: NewsletterRecord }) {
  const { step = 'content' } = route.useSearch()
  const navigate = route.useNavigate()
  const [isDeleting, setIsDeleting] = useState(false)
  const [contact, setContact] = useState('')
  const reason = useAllowed('developer')
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
        <ActionButton size="xs" variant="default" reason={reason} onClick={() => setIsDeleting(true)}>
          Delete the draft
        </ActionButton>
      </Group>
      {isDeleting && <DeleteDialog draft={draft} onClose={() => setIsDeleting(false)} />}
    </Stack>
  )
}

function ListStep({ draft, onDone }: { readonly draft: NewsletterRecord; onDone(): void }) {
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
  readonly draft: NewsletterRecord
  readonly contact: string
  onDone(): void
}

function TestStep({ draft, contact, onDone }: TestStepProps) {
  const { user } = useSession()
  const reason = useAllowed('developer')
  const send = useSendTest(draft.id)
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
          onClick={() => send.mutate(contact, { onSuccess: ({ id }) => setSentId(id) })}
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
            <Anchor component={Link} to="/emails/$id" params={{ id: sentId } as never} underline="always" size="sm">
              See what happens to it
            </Anchor>
          </Alert>
        )}
      </div>
      <FormError error={send.error} />
    </Stack>
  )
}

function DeleteDialog({ draft, onClose }: { readonly draft: NewsletterRecord; onClose(): void }) {
  const remove = useDeleteDraft(draft.id)
  const navigate = useNavigate()
  return (
    <DialogFrame
      title="Delete this draft?"
      confirm="Delete the draft"
      isDangerous
      work={remove}
      onConfirm={() => remove.mutate(undefined, { onSuccess: () => void navigate({ to: '/broadcasts' }) })}
      onClose={onClose}
    >
      <Text>Its text is lost. Test emails that were sent stay.</Text>
    </DialogFrame>
  )
}
