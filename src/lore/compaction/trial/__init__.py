"""What a policy would have done to a recorded session: where it fires, what that costs and saves.

`trial` takes the recorded events and asks one or two plans (`plan`) at the places where a harness would ask; each
plan has a session with its own compactions (`counterfactual`) and its own sums (`ledger`); `accounts` adds up what was
billed, and what would have been; `verdict_text` writes the answer.
"""
