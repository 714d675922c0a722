/** @module The steps of a broadcast, as links once it is stored. */
import { AppLink } from '../../parts/links.tsx'
import { STEP_NAMES, STEPS, type Step } from './steps.ts'

/** @param draftId undefined: only the first steps exist, and they are not links */
export const StepList = ({ current, draftId }: { readonly current: Step; readonly draftId?: string }) => (
  <nav aria-label="Steps">
    <ol className="tabs plain-list">
      {STEPS.map((step, index) => (
        <li key={step}>
          {draftId === undefined || step === current ? (
            <span className="tab" {...(step === current && { 'aria-current': 'step' as const })}>
              {index + 1}. {STEP_NAMES[step]}
            </span>
          ) : (
            <AppLink to="/broadcasts/drafts/$id" params={{ id: draftId }} search={{ step }} className="tab">
              {index + 1}. {STEP_NAMES[step]}
            </AppLink>
          )}
        </li>
      ))}
    </ol>
  </nav>
)
