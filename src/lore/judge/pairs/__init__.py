"""The verdict on two turns: facts -> causes -> the tokens that each cost."""
